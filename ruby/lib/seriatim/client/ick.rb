# frozen_string_literal: true

module Seriatim
  # Two-phase commit sets, with the calls of the Redis::Ick gem. A set holds members with scores. Producers add members; of a
  # member that is there already the lower score counts. A consumer reserves the members with the lowest scores, processes them
  # and commits them; until then every reserve gives them again. A member that is added again while it is reserved is reserved
  # once more after the commit.
  #
  #   ick = Seriatim::Ick.new
  #   ick.ickadd("dirty", Time.now.to_f, "doc-1")
  #   batch = ick.ickreserve("dirty", 100)
  #   batch.each { |member, _score| index(member) }
  #   ick.ickcommit("dirty", *batch.map(&:first))
  #
  # An object belongs to one consumer: it keeps the token of its last reserve of each set, and what it commits is what it has
  # reserved under that token. Threads that reserve need an object and a consumer name each.
  class Ick
    # The value of a call that was made in {#pipelined}.
    class Future
      # @raise [Invalid] the block of pipelined has not ended yet
      def value
        raise Invalid, "the value of this future is there when the block of pipelined has ended" unless defined?(@value)

        @value
      end

      # @api private
      attr_writer :value
    end

    CONSUMER = "consumer"
    RESERVE_TIME = 30

    # @param url [String, nil] nil: the Redis of the module
    # @param statsd [#increment, #timing, #time, nil] gets the metrics of the calls
    # @param consumer [String] who reserves. A process that reserves as the same consumer takes over at once what the last one
    #   has not committed
    # @param reserve_time [Numeric] seconds for which no other consumer gets what this one reserves
    def initialize(url = nil, statsd: nil, consumer: CONSUMER, reserve_time: RESERVE_TIME)
      @url = url.nil? ? nil : Validate.text("url", url, 1..4096)
      @statsd = statsd_of(statsd)
      @consumer = Validate.text("consumer", consumer, 1..512).dup.freeze
      @reserve_time = Validate.seconds("reserve_time", reserve_time, 0.1..86_400.0)
      @tokens = {}
      @pipelines = {}.compare_by_identity
    end

    # Adds members: ickadd(name, score, member, score, member, ...), or the same in one Array.
    # @return [Array(Integer, Integer)] new members, lowered scores
    def ickadd(name, *pairs)
      pairs = listed(pairs)
      raise Invalid, "ickadd: a score and a member for each pair must be given, not #{pairs.size} arguments" if pairs.size.odd?

      scores, members = pairs.each_slice(2).to_a.transpose
      scores = (scores || []).each_with_index.map { |score, at| score_of(score, at) }
      request("ickadd", name, members: texts(members || [], "member"), scores: scores, sizes: { pairs: pairs.size / 2 }) { |row| row[0, 2] }
    end

    # Reserves members until this consumer holds max_size of them.
    # @param backwash [Boolean] what it holds goes back first, so that the lowest of all are reserved
    # @return [Array<Array(String, Float)>] the max_size lowest that it holds, each as [member, score]
    def ickreserve(name, max_size = 0, backwash: false)
      request("ickreserve", name, max_size: size_of("max_size", max_size), backwash: flag(backwash), sizes: { max_size: max_size }) do |row, key|
        reserved(key, row)
      end
    end

    # Ends the reservations of these members, or of an Array of them. Members that this object has not reserved are ignored.
    # @return [Integer] how many were ended
    def ickcommit(name, *members)
      members = texts(listed(members), "member")
      request("ickcommit", name, members: members, sizes: { members: members.size }) { |row| row[2] }
    end

    # ickcommit, then ickreserve, in one call.
    # @return [Array<Array(String, Float)>]
    def ickexchange(name, reserve_size, *members, backwash: false)
      members = texts(listed(members), "member")
      sizes = { reserve_size: reserve_size, commit_members: members.size }
      request("ickexchange", name, max_size: size_of("reserve_size", reserve_size), backwash: flag(backwash), members: members, sizes: sizes) do |row, key|
        reserved(key, row)
      end
    end

    # @return [Hash{String => Object}, nil] key, ver, pset_size, cset_size, total_size and more; nil: there is no such set
    def ickstats(name) = request("ickstats", name) { |row| row[6] }

    # Deletes the set with its reservations.
    # @return [Integer] 0 to 3: how many of the set, its members to be reserved and its reserved members there were
    def ickdel(name) = request("ickdel", name) { |row| row[3] }

    # As ickdel: both free the memory in another thread of Redis.
    # @return [Integer]
    def ickunlink(name) = request("ickunlink", name) { |row| row[3] }

    # Adds all members of a set that Redis::Ick has stored in the same Redis. Only reads the keys of the gem.
    # @param from [String] the key of that set
    # @return [Array(Integer, Integer)] new members, lowered scores
    def import(name, from: name) = request("import", name, members: [key_of("from", from)]) { |row| row[0, 2] }

    # Sends the calls of the block together. Each of them returns a {Future} at once. Calls of other threads and fibers are not
    # part of it and run at once. A commit ends what this object reserved before the block, not what the block reserves.
    # @return [Array] the values of the calls, in their order
    def pipelined
      raise Invalid, "pipelined must not be called inside pipelined" if @pipelines.key?(Fiber.current)

      waiting = @pipelines[Fiber.current] = []
      begin
        yield self
      ensure
        @pipelines.delete(Fiber.current)
      end
      run(waiting.map(&:first)).zip(waiting).map { |row, (call, future, read)| future.value = read.call(row, call[1]) }
    end

    private

    # One call, by the name that it has in statsd, now or with the other calls of a pipeline.
    def request(metric, name, max_size: 0, backwash: false, members: [], scores: nil, sizes: {}, &read)
      key = key_of("name", name)
      call = [metric == "ickunlink" ? "ickdel" : metric, key, @tokens.fetch(key.b, 0), max_size, backwash, members, scores]
      measured(metric, sizes) do
        waiting = @pipelines[Fiber.current]
        next read.call(run([call]).first, key) unless waiting

        Future.new.tap { |future| waiting << [call, future, read] }
      end
    end

    def run(calls) = calls.empty? ? [] : pool.with { |connection| connection.ick(@consumer, @reserve_time, calls) }

    # Strings of the same bytes and different encodings are one set, but not one key of a Hash.
    def reserved(key, row)
      @tokens[key.b] = row[4] if row[4].positive?
      row[5]
    end

    # A child of fork makes its own.
    def pool
      return Pool.current unless @url

      @pool = nil unless @pool&.generation == Native.generation
      @pool ||= Pool.new(Seriatim.client_pool_size, Seriatim.pool_timeout) { Connection.new(@url, Seriatim.namespace) }
    end

    # The names of the gem, and profile.ick.time.ickdel beside profile.ick.ickdel.time.
    def measured(metric, sizes, &call)
      return call.call if @statsd.nil? || metric == "import"

      @statsd.increment("profile.ick.#{metric}.calls")
      sizes.each { |size, value| @statsd.timing("profile.ick.#{metric}.#{size}", value) }
      return @statsd.time("profile.ick.time.#{metric}", &call) unless %w[ickdel ickunlink].include?(metric)

      @statsd.time("profile.ick.#{metric}.time") { @statsd.time("profile.ick.time.#{metric}", &call) }
    end

    def statsd_of(statsd)
      return statsd if statsd.nil? || %i[increment timing time].all? { |name| statsd.respond_to?(name) }

      Validate.refuse("statsd", "an object with increment, timing and time, or nil", statsd)
    end

    def listed(arguments) = arguments.size == 1 && arguments.first.is_a?(Array) ? arguments.first : arguments

    # A copy: the caller may change the String before a pipeline is sent.
    def key_of(field, key) = key.is_a?(String) ? key.dup.freeze : Validate.refuse(field, "a String", key)

    # Copies, too.
    def texts(members, what)
      members.each_with_index.map do |member, at|
        Jobs.id_text(member) { |value| Validate.refuse("#{what} #{at + 1}", "a String, Symbol or Integer", value) }.dup.freeze
      end
    end

    # Refuses a finite number, such as 10**400, whose Float is infinite.
    def score_of(score, at)
      value = Jobs.number(score) { Validate.refuse("the score of member #{at + 1}", "a number", score) }
      return value unless value.infinite? && score.finite?

      Validate.refuse("the score of member #{at + 1}", "a number that a Float can hold", score)
    end

    def size_of(field, size) = Validate.integer(field, size, 0..2_147_483_647)

    def flag(value) = Validate.flag("backwash", value)
  end
end
