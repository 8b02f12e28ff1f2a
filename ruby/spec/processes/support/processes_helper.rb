# frozen_string_literal: true

require_relative "../../spec_helper"
require_relative "workload"
require_relative "../../../../spec/crash/kit/checker"
require_relative "../../../../spec/crash/kit/process"
require_relative "../../../../spec/support/redis_server"
require "json"
require "tmpdir"
require "zlib"

# Examples with several processes: a Redis for each group, a journal for each example, and what they do with them.
module ProcessesHelper
  ROOT = File.expand_path("../../../..", Seriatim.method(:redis_url).source_location.first.sub("redis_url.rb", "")) # of the tree under test
  LEFT_OVER = /:(jobs|ready|due|next|retry|dead|died|parked|unproven|suspect|overrun|claims|spill.*|spillmap.*|nextspill.*|deadspill.*)\z/

  def self.included(group)
    group.before(:context) { @redis = RedisServer.new }
    group.after(:context) { @redis.remove }
    group.before do
      @redis.flush
      @redis.call("SCRIPT", "FLUSH")
      @folder = Dir.mktmpdir("seriatim-processes")
      @journal = Journal.new(File.join(@folder, "journal"))
      @processes = []
      @workers = {}
      Seriatim.redis = @redis.url
    end
    group.after do |example|
      @processes.each(&:remove)
      show_logs if example.exception
      FileUtils.rm_rf(@folder)
    end
  end

  attr_reader :redis, :journal, :folder

  # ---- workers and processes

  # Names the queues, for this process and for those that are started from now on.
  def queues(settings)
    @workers = settings.transform_keys(&:to_sym)
    @modules = @workers.to_h { |queue, fields| [queue, Workload.worker(queue.to_s, fields)] }
  end

  def queue(name) = @modules.fetch(name)

  # Starts `seriatim -r app`, without waiting for it.
  # @param only [Array<Symbol>, nil] of the queues
  def spawn_server(*arguments, threads: 8, lease: 20, only: nil, environment: {}, **settings)
    workers = only ? @workers.slice(*only) : @workers
    workload = { workers: workers, seriatim: { lease_time: lease, poll_interval: 0.5, **settings } }
    seriatim("-r", File.join(__dir__, "app.rb"), "-c", threads.to_s, *arguments, workload: workload, environment: environment)
  end

  # Starts one and waits until it works.
  def start_server(*arguments, **settings)
    spawn_server(*arguments, **settings).tap(&:wait_until_started)
  end

  # Starts the command.
  def seriatim(*arguments, workload: {}, environment: {})
    run([RbConfig.ruby, "-I", "#{ROOT}/ruby/lib", "#{ROOT}/ruby/exe/seriatim", *arguments], workload, environment)
  end

  # Starts a process that pushes 1..count to each of the ids, one by one, until the file is there.
  def spawn_producer(queue, ids, count: 1_000_000, pause: 0, until_file: nil, payload: {})
    workload = { workers: @workers, queue: queue, ids: ids, count: count, pause: pause, until: until_file, payload: payload }
    run([RbConfig.ruby, "-I", "#{ROOT}/ruby/lib", File.join(__dir__, "producer.rb")], workload, {})
  end

  def run(command, workload, environment)
    variables = { "REDIS_URL" => redis.url, "JOURNAL" => journal.path, "WORKLOAD" => JSON.generate(workload), **environment }
    SpawnedProcess.new(command, variables, File.join(folder, "log#{@processes.size}"), journal).tap { |process| @processes << process }
  end

  # ---- pushes

  # Pushes the numbers to the id, in one call.
  def push(queue, id, numbers, **payload)
    numbers = Array(numbers)
    queue(queue).perform_async(numbers.map { |number| { id: id, payload: { n: number, **payload } } })
    journal.pushed(queue, id, numbers)
  end

  # An id for each shard of a queue with `count` shards.
  def ids_of_all_shards(count, prefix = "")
    by_shard = {}
    (1..).each do |number|
      id = "#{prefix}#{number}"
      by_shard[Zlib.crc32(id) % count] ||= id
      return by_shard.values if by_shard.size == count
    end
  end

  # ---- waits

  # Until nothing waits and nothing runs, in all queues.
  def drain(seconds = 60)
    eventually(seconds) { @modules.each_value.all? { |worker| worker.metrics.values_at(:length, :busy).sum.zero? } }
  rescue RuntimeError
    raise "not drained: #{@modules.transform_values { |worker| worker.metrics.slice(:length, :busy, :fresh, :retries, :lag) }}"
  end

  # Watches for so long that the block stays true.
  def throughout(seconds)
    deadline = Journal.now + seconds
    while Journal.now < deadline
      yield or raise "not throughout #{seconds} s"
      pause(0.01)
    end
    true
  end

  # For a rate or a period that the example is about; never to wait for something.
  def pause(seconds) = IO.select(nil, nil, nil, seconds)

  # ---- judgements

  def verdict = Checker.new(journal.lines)

  def figures(name) = @modules.transform_values { |worker| worker.metrics[name] }

  # Keys that should have gone with the last job, and findings of Seriatim's own check.
  def leftovers
    cursor = "0"
    keys = []
    loop do
      cursor, found = redis.call("SCAN", cursor, "COUNT", "1000")
      keys.concat(found.grep(LEFT_OVER))
      break if cursor == "0"
    end
    keys + @modules.flat_map { |_, worker| worker.actions.check[:findings] }
  end

  def report(text)
    RSpec.configuration.reporter.message("    #{text}")
  end

  def show_logs
    kept = Dir.mktmpdir("seriatim-failed")
    FileUtils.cp_r("#{folder}/.", kept)
    RSpec.configuration.reporter.message("    journal and logs are kept in #{kept}")
  end
end
