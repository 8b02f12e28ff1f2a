# frozen_string_literal: true

require_relative "../spec_helper"
require_relative "../../interop/agents"
require_relative "proxy"

# Workers, producers and agents of every language around one Redis, for examples that trouble Redis and the way to it.
module AllLanguages
  LANGUAGES = Language::ALL.keys # those that push through their public API; workers are in C as well

  def self.included(group)
    group.include(CrashKit)
    group.after do
      (@agents || []).each(&:close)
      (@proxies || []).each(&:stop)
      @own_redis&.remove
    end
  end

  # ---- Redis and the way to it

  # Before the kit is first used: gives its Redis these arguments.
  def with_redis(*arguments, redis: RedisServer)
    @own_redis = redis.new(*arguments)
    @kit = Kit.new(seed: RSpec.configuration.seed, redis: @own_redis)
  end

  def redis = kit.redis

  def proxy(rule = nil, **options)
    Proxy.new(redis.socket, **options).tap do |proxy|
      proxy.rule = rule
      (@proxies ||= []) << proxy
    end
  end

  # ---- agents

  # An agent that knows these queues.
  def agent(language, url = redis.url, **queues)
    AgentProcess.new(language, url, File.join(kit.folder, "agent-#{language}")).tap do |agent|
      (@agents ||= []) << agent
      queues.each { |name, settings| agent.worker(name.to_s, **settings) }
    end
  end

  # Yields each language with an agent of its own, all at once. @return [Hash] what the block gave, by language
  # @param urls [Hash{String => String}] by language
  # @param queues [Hash{Symbol => Hash}] settings by name; made in the kit as well
  def with_agents(urls = Hash.new(redis.url), **queues, &block)
    queues.each { |name, settings| kit.queue(name, **settings) }
    @agent_of = LANGUAGES.to_h { |language| [language, agent(language, urls[language], **queues)] }
    at_once(@agent_of, &block)
  end

  def agent_of = @agent_of

  # Yields each key with its value in a thread of its own.
  def at_once(given)
    threads = given.map do |key, value|
      Thread.new do
        Thread.current.report_on_exception = false
        [key, yield(key, value)]
      end
    end
    threads.to_h(&:value)
  end

  # ---- load

  STORM = { shards_count: 8, fold: "list", max_retry_count: 1000 }.freeze

  # A worker of each language and producers at work on Storm, the producers also on Kept, which nobody serves, while the
  # block is called again and again for `seconds`, or once when that is nil.
  # @param workers [#call, nil] starts others
  def under_load(seconds, url: redis.url, lease: 10, pause: 0.02, workers: nil)
    kit.queue("Storm", **STORM)
    kit.queue("Kept", shards_count: 3, fold: "list")
    enough = File.join(kit.folder, "enough")
    @workers = workers ? workers.call.each(&:wait_until_started) : start_workers(url, lease)
    @producers = LANGUAGES.product(%w[Storm Kept]).map do |language, queue|
      kit.producer(language, queue, ids_of(language), url: url, pause: pause, until_file: enough)
    end
    more_runs(100)
    kit.eventually { LANGUAGES.product(%w[Storm Kept]).all? { |language, queue| pushed(queue).keys.intersect?(ids_of(language)) } } # who was never connected gives up soon
    repeat(seconds) { yield }
    FileUtils.touch(enough)
    @producers.each { |producer| expect(producer.wait(150)).to eq(0), producer.log }
  end

  def start_workers(url, lease)
    Kit::LANGUAGES.map { |language| kit.worker(language, queue: "Storm", lease: lease, url: url) }.each(&:wait_until_started)
  end

  # Runs that began so far. The journal grows long: each call reads what is new.
  def starts_so_far
    @journal_file ||= File.open(kit.journal.path)
    @starts_so_far = (@starts_so_far || 0) + @journal_file.read.scan(/^start /).size
  end

  # Waits until `count` more runs have begun.
  def more_runs(count, seconds = 120, failure = "nothing runs any more")
    before = starts_so_far
    kit.eventually(seconds, -> { failure }) { starts_so_far >= before + count }
  end

  # Started by itself, not by a fork server, because its environment differs.
  def spawn_worker(language, environment, lease:, threads: 4)
    return kit.worker(language, queue: "Storm", lease: lease, environment: environment) if language == "c"

    commands = Language::ALL.fetch(language)
    workload = { workers: { Storm: STORM }, tasks: false, seriatim: { lease_time: lease, poll_interval: 0.5 } }
    variables = { "REDIS_URL" => redis.url, "JOURNAL" => kit.journal.path, "WORKLOAD" => JSON.generate(workload) }
    kit.start([*commands.server, "-c", threads], { **commands.variables, **variables, **environment })
  end

  def repeat(seconds)
    deadline = Journal.now + (seconds || 0)
    loop do
      yield
      break if Journal.now >= deadline
    end
  end

  def ids_of(language) = (1..10).map { |number| "#{language}#{number}" }

  def pause(seconds) = IO.select(nil, nil, nil, seconds)

  def seconds_of
    before = Journal.now
    yield
    Journal.now - before
  end

  # ---- judgements

  # Each acknowledged push ran, in order. Those to Kept, which a worker serves only now, ran once. No worker has ended.
  # @return [Checker]
  def nothing_is_lost
    drained
    @workers.each { |worker| expect(worker.stop).to eq(0), worker.log }
    serve_kept
    verdict = kit.verdict
    expect(verdict.faults).to eq({})
    expect(verdict.repeated.grep(%r{\AKept/})).to eq([])
    expect(kit.leftovers).to eq([])
    verdict
  end

  def serve_kept
    worker = kit.worker("ruby", queue: "Kept").tap(&:wait_until_started)
    drained("Kept")
    expect(worker.stop).to eq(0), worker.log
  end

  def drained(queue = "Storm", seconds = 150)
    kit.eventually(seconds, -> { "not drained: #{kit[queue].metrics.except(:shards)}" }) do
      kit[queue].metrics.values_at(:length, :busy).sum.zero?
    end
  end

  # The numbers that wait, in order, by id.
  def waiting(queue, ids)
    ids.each_slice(20).flat_map { |slice| kit[queue].queries.fetch(slice) }
       .to_h { |job| [job[:id], job[:payloads].map { |payload, _| payload.is_a?(Hash) ? payload["n"] : payload }] }
  end

  def pushed(queue)
    lines = kit.journal.lines.select { |line| line.kind == "pushed" && line.queue == queue }
    lines.group_by(&:id).transform_values { |of_id| of_id.flat_map(&:numbers) }
  end

  def note(fault, what, value)
    Figures.note(fault, what, value)
  end
end
