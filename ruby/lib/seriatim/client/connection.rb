# frozen_string_literal: true

module Seriatim
  # A connection to Redis for pushes and queries, with the numbers that it gave to its queues. The pool gives it to one thread
  # at a time.
  # @api private
  class Connection
    MAX_PAYLOAD = 0 # the core's default, 1 MiB
    NO_QUEUE = -1

    # Gives the block one that is never opened: it knows the rules of the core, and those of the pool may all wait for a Redis that
    # is away.
    def self.unopened
      connection = new("redis://127.0.0.1", Seriatim.namespace)
      yield connection
    ensure
      connection&.close # frees memory that the garbage collector does not count
    end

    # @param url_from [String, nil] the setting or variable that holds the URL, for the error of a Redis that cannot be reached
    def initialize(url, namespace, url_from = nil)
      @link = Native::Link.new(url, namespace, "seriatim-client", MAX_PAYLOAD, url_from)
      @queues = {}
    end

    # The queue's number in this link; its settings travel again only when they changed.
    # @param settings [Hash] as {Worker#queue_settings} gives them
    def number(settings)
      name = settings[:queue_name]
      known = @queues[name]
      return known.last if known && known.first.equal?(settings)

      @link.queue(settings).tap { |number| @queues[name] = [settings, number] }
    end

    # @param jobs [Array<Hash>] as perform_async takes them
    # @param payloads [Array<String>, nil] bytes of each; nil: their JSON
    # @param wait [Array(Integer, Numeric)] replicas, and seconds for each WAIT
    # @param seconds [Float] that it may take from now
    # @param handles [Boolean] answer a handle for each job
    # @param outbox [Array(String, Array<Integer>), nil] the name of an outbox, and the number of each job in it
    # @return [Array] added, folded, places of refused jobs, what was said of too few replicas or nil, what is to be warned of or nil,
    #   scheduled, stale, handles, repeated (jobs of an outbox that were written before)
    def push(settings, jobs, payloads, wait, seconds, handles, outbox = nil)
      @link.push(number(settings), jobs, payloads, *wait, seconds, handles, *outbox)
    end

    # @param pushes [Array<Array>] settings, jobs, payloads, wait, seconds and handles of each, as {#push} takes them
    # @return [Array(Array<Array>, Error | nil, String | nil)] what {#push} gives, of each push, but an exception or nil in the place of what was
    #   said of too few replicas; what the pushes together end with; what is to be warned of
    def pipeline(pushes)
      @link.pipeline(pushes.map { |settings, jobs, payloads, wait, seconds, handles| [number(settings), jobs, payloads, *wait, seconds, handles] })
    end

    # Raises what a push of the jobs would before it sends anything.
    # @raise [Invalid] naming the job and the field
    def check_jobs(settings, jobs, payloads) = @link.check_jobs(number(settings), jobs, payloads)

    # @return [Integer] shards_count as Redis has it
    def layout(settings, limit: nil) = @link.layout(number(settings), limit)

    # @param kind [String] the name of the query
    # @return [Array<Hash>]
    def query(settings, kind, reverse: false, min: nil, max: nil, limit: 10, shard: -1, ids: nil)
      @link.query(number(settings), kind, reverse, min, max, limit, shard, ids, nil)
    end

    # @param texts [Array<String>, nil] what the action takes, as core/definitions/operations.json says
    # @return [Integer] what it returns
    def action(settings, name, texts = nil) = @link.action(number(settings), name, texts, nil)

    # @param settings [Array<Hash>] of the queues, in their order
    # @param weights [Array<Integer>, nil] of each queue
    # @return [Array, nil] place of the queue in `settings`, id, fence, deliveries, token or nil, retry_count, error or nil, more,
    #   [[bytes, score, context or nil, stamp]]; nil: no id was due
    def pop(settings, weights, wait, ttr, max)
      numbers = settings.map { |queue| number(queue) }
      queue, *popped = @link.pop(numbers, weights, wait, ttr, max)
      [numbers.index(queue), *popped] if queue
    end

    # Reports on what was popped.
    # @param kind [Symbol] of Native::POPPED
    # @param payloads [Integer, Array<Float>, nil] how many of the first ones (:checkpoint), or their stamps (:reject)
    # @raise [Stale]
    def popped(token, kind, seconds = 0.0, text = nil, payloads = nil)
      @link.popped(token, Native::POPPED.fetch(kind), seconds, text, payloads)
    end

    # @return [Hash]
    def metrics(settings) = @link.metrics(number(settings), nil)

    # @return [Hash]
    def explain(settings, id) = @link.explain(number(settings), id, nil)

    # @param settings [Hash, nil] nil: the keys below the namespace that are no queue's
    # @return [Array(Integer, Array<Hash>)]
    def check(settings, repair) = @link.check(settings ? number(settings) : NO_QUEUE, repair, nil)

    # @return [Array<Hash>]
    def nodes = @link.nodes(nil)

    # @param command [String] "quiet" or "stop"
    # @return [Boolean] false: no node of this name is alive
    def node_command(node, command) = @link.node_command(node, command, nil)

    # @return [Array<String>] the names of all queues of the namespace
    def queues = @link.queues(nil)

    # @param calls [Array<Array>] as {Ick} makes them
    # @return [Array<Array>] their results
    def ick(consumer, reserve_time, calls) = @link.ick(consumer, reserve_time, calls, nil)

    # @return [Hash] maxmemory_policy, appendonly: nil where Redis does not tell
    def health(limit: nil) = @link.health(limit)

    # One request of the dashboard; arrays as {Web} makes them.
    # @param noted [Array] what the request asked to change is added, as [Hash, String], also when this raises
    # @return [Array(Integer, Hash, String, Integer)] status, header fields, body; milliseconds after which a pop asks again, or 0
    def web(settings, request, redact, load_error, noted, limit:) = @link.web(settings, request, redact, load_error, noted, limit)

    # The next action on a whole queue, or the next check, says on stderr how far it is, where that is a terminal.
    # @param what [String] the words in front of the figures
    # @param total [Integer, nil] how many ids or records there are
    # @return [Boolean] is it a terminal?
    def progress(what, total) = @link.progress(what, total)

    # The URL without its password.
    def url = @link.url

    def close = @link.close
  end
end
