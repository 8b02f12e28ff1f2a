# frozen_string_literal: true

require_relative "kept_jobs"
require_relative "proxy"

# Kills who begins a move, and the server that moves ids, at each call of each script of a move: before Redis has seen it, when Redis has
# carried it out and nobody has seen the answer, and when the answer has come. Then a server that is not killed ends the move.
class ReshardPoints
  MOMENTS = %i[before sent answered].freeze
  OF_COMMAND = %w[set_layout turn].product(MOMENTS).freeze
  OF_SERVER = %w[turn foreign depart slice_out slice_in arrive departed out set_layout].product(MOMENTS).freeze
  POINTS = [*OF_COMMAND.map { |point| [:command, *point] }, *OF_SERVER.map { |point| [:server, *point] }].freeze
  NTH = { "turn" => 1..5, "arrive" => 1..8, "departed" => 1..8, "depart" => 1..6, "foreign" => 1..9, "out" => 1..3 }.freeze
  SHARDS = [5, 3].freeze # in turn
  LEASE = 0.2 # seconds
  PATIENCE = 120 # seconds

  # died: how many at their point; missed: [point, log] of those that never came to it; changed: what was stored otherwise after a move
  attr_reader :died, :missed, :changed

  # @param lanes [Integer] queues, each of which moves by itself; the last one is paused
  # @param program [String, nil] of the servers: a mutant
  def initialize(kit, lanes:, ids:, payloads:, program: nil)
    @kit = kit
    @program = program
    @died = 0
    @missed, @changed = [], []
    @lock = Mutex.new
    names = (1..lanes).map { |lane| "Lane#{lane}" }
    @kept = names.to_h { |queue| [queue, KeptJobs.new(kit, queues: { queue => "list" }, paused: (queue if queue == names.last), shards: 3, ids:, payloads:)] }
  end

  # @param points [Array<Array>] of POINTS
  def run(points)
    work = Thread::Queue.new
    points.shuffle(random: @kit.random).each { |point| work << [point, @kit.random.rand(NTH.fetch(point[1], 1..1))] }
    work.close
    threads = @kept.map do |queue, kept|
      Thread.new do
        Thread.current.report_on_exception = false
        lane(queue, kept, work)
      end
    end
    threads.each(&:value)
  end

  # Lets all that was kept run, and waits until it has.
  def release
    workers = @kept.keys.map { |queue| server(queue, @kit.redis.url) }
    @kept.each_value { |kept| kept.release(PATIENCE) }
    @kit.drain
    workers.map(&:stop)
  end

  private

  def lane(queue, kept, work)
    proxy = Proxy.new(@kit.redis.socket)
    before = kept.stored
    while (point, nth = work.pop)
      after = move(queue, proxy, point, nth) { kept.stored }
      @lock.synchronize { @changed.concat(KeptJobs.differences(before, after).map { |one| "#{point} #{nth}: #{one}" }) }
      before = after
    end
  ensure
    proxy&.stop
  end

  # Yields while a server is there that turns all shards to the layout of the end.
  def move(queue, proxy, (who, script, moment), nth)
    shards = SHARDS.find { |number| number != shards_of(queue)[0] }
    proxy.rule = Proxy::Rule.new(step: Proxy::Step.new(script:, moment:, nth:))
    if who == :command
      note([who, script, moment, nth], @kit.reshard(queue, shards, url: proxy.url), queue, shards)
      @kit.reshard(queue, shards).wait if shards_of(queue)[0] != shards
    else
      # A shard whose turn is left to the servers is what a command leaves that dies behind its first write.
      script == "turn" ? cut_command(queue, shards) : @kit.reshard(queue, shards).wait
      victim = server(queue, proxy.url)
      note([who, script, moment, nth], victim, queue, shards)
    end
    last = server(queue, @kit.redis.url)
    @kit.eventually(PATIENCE, -> { "#{queue} does not become #{shards} shards after #{who} #{script} #{moment} #{nth}: #{last.log.lines.last(3).join}" }) { shards_of(queue) == [shards, 0] }
    yield
  ensure
    last&.stop
  end

  # Waits until it died at its point, or the move to this number of shards has ended without that.
  def note(point, process, queue, shards)
    deadline = Journal.now + PATIENCE
    nil until process.end_within(0.1) || shards_of(queue) == [shards, 0] || Journal.now > deadline
    dead = process.end_within(5) && process.status.signaled?
    @lock.synchronize { dead ? @died += 1 : @missed << [point, process.log.lines.last(3).join] }
    process.kill
  end

  def cut_command(queue, shards)
    way = Proxy.new(@kit.redis.socket)
    way.rule = Proxy::Rule.new(step: Proxy::Step.new(script: "set_layout", moment: :sent))
    @kit.reshard(queue, shards, url: way.url).wait
    way.stop
  end

  def server(queue, url) = @kit.worker("c", queue:, threads: 2, lease: LEASE, poll: 0.1, url:, program: @program)

  # @return [Array(Integer, Integer)] shards, and the number of those that ids leave, 0 when none move
  def shards_of(queue)
    words = @kit.redis.call("GET", "seriatim:{#{queue}}:layout").split.map(&:to_i)
    [words[1], words[3].to_i]
  end
end
