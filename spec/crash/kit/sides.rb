# frozen_string_literal: true

require_relative "../../../ruby/spec/processes/support/processes_helper"
require_relative "../../interop/agents"
require_relative "figures"
require_relative "proxy"

# Servers, producers and agents of every language around one Redis, for examples that trouble Redis and the way to it.
module Sides
  LANGUAGES = Language::ALL.keys

  def self.included(group)
    group.include(ProcessesHelper)
    group.before(:context) { start_own_redis }
    group.before { @agents, @proxies = [], [] }
    group.after do
      @agents.each(&:close)
      @proxies.each(&:stop)
    end
  end

  # One that may be told to sleep and to be slow.
  def start_own_redis
    @redis.remove
    @redis = RestartableRedis.new("--enable-debug-command", "yes")
  end

  def proxy(rule = nil, **options)
    Proxy.new(redis.socket, **options).tap do |proxy|
      proxy.rule = rule
      @proxies << proxy
    end
  end

  # An agent that knows the queues of this example.
  def agent(language, url = redis.url)
    AgentProcess.new(language, url, File.join(folder, "agent#{@agents.size}")).tap do |agent|
      @agents << agent
      @workers.each { |name, settings| agent.worker(name.to_s, **settings.except(:back_off)) }
    end
  end

  # Yields each language with an agent of its own, all at once. @return [Hash] what the block gave, by language
  # @param urls [Hash{String => String}] by language
  def with_agents(urls = Hash.new(redis.url), &block)
    at_once(LANGUAGES.to_h { |language| [language, agent(language, urls[language])] }, &block)
  end

  def seconds_of
    before = Journal.now
    yield
    Journal.now - before
  end

  def at_once(given)
    given.map { |key, value| [key, Thread.new { Thread.current.report_on_exception = false; yield key, value }] }
         .to_h { |key, thread| [key, thread.value] }
  end

  # Starts a server in the language; see ProcessesHelper#spawn_server.
  def server_in(language, url: redis.url, threads: 4, lease: 2, only: nil, environment: {}, **settings)
    workers = only ? @workers.slice(*only) : @workers
    workload = { workers: workers, tasks: false, seriatim: { lease_time: lease, poll_interval: 0.5, **settings } }
    in_language(language, [*Language::ALL.fetch(language).server, "-c", threads.to_s], workload, url, environment)
  end

  # Starts a producer in the language; see ProcessesHelper#spawn_producer.
  def producer_in(language, queue, ids, url: redis.url, count: 1_000_000, pause: 0.005, until_file: nil, payload: {})
    workload = { workers: @workers, tasks: false, queue: queue, ids: ids, count: count, pause: pause, until: until_file, payload: payload }
    in_language(language, Language::ALL.fetch(language).producer, workload, url, {})
  end

  def in_language(language, command, workload, url, environment)
    run(command, workload, { **Language::ALL.fetch(language).variables, **environment, "REDIS_URL" => url })
  end

  # A server and a producer of each language at work on Storm, the producers also on Kept, which nobody serves, while the
  # block is called again and again for so many seconds, or until it is true when there are none.
  def under_load(seconds, url: redis.url, lease: 3, pause: 0.005, fleet: nil)
    queues(Storm: { shards_count: 6, fold: :list }, Kept: { shards_count: 3, fold: :list })
    enough = File.join(folder, "enough")
    @fleet = (fleet || LANGUAGES.map { |language| server_in(language, url: url, lease: lease, only: %i[Storm]) }).each(&:wait_until_started)
    producers = LANGUAGES.flat_map do |language|
      %i[Storm Kept].map { |queue| producer_in(language, queue, ids_of(language), url: url, pause: pause, until_file: enough) }
    end
    eventually(20) { journal.starts.size > 100 }
    deadline = seconds && (Journal.now + seconds)
    loop { break if yield && !deadline || deadline && Journal.now > deadline }
    FileUtils.touch(enough)
    producers.each { |producer| expect(producer.wait(60)).to eq(0), producer.log }
  end

  def ids_of(language) = (1..10).map { |number| "#{language}#{number}" }

  def drained(seconds = 60)
    eventually(seconds) { queue(:Storm).metrics.values_at(:length, :busy).sum.zero? }
  end

  def fleet_stops
    @fleet.each { |server| expect(server.stop).to eq(0), server.log }
  end

  # Each acknowledged push ran, or waits where nobody serves, and each once.
  def nothing_is_lost
    drained
    fleet_stops
    expect(verdict.faults.except(:lost)).to eq({})
    expect(verdict.lost.grep_v(%r{\AKept/})).to eq([])
    expect(kept).to eq(pushed(:Kept))
    expect(leftovers.grep_v(/{Kept/)).to eq([])
  end

  # All payloads that wait, by id.
  def kept
    pushed(:Kept).keys.each_slice(20).flat_map { |ids| queue(:Kept).queries.fetch(ids) }
                 .to_h { |job| [job[:id], job[:payloads].map { |payload, _| payload["n"] }] }
  end

  def pushed(queue)
    lines = journal.lines.select { |line| line.kind == "pushed" && line.queue == queue.to_s }
    lines.group_by(&:id).transform_values { |of_id| of_id.flat_map(&:numbers) }
  end

  def note(fault, what, value)
    Figures.note(fault, what, value)
  end
end
