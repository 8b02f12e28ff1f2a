# frozen_string_literal: true

require "json"
require_relative "command"
require_relative "lowkiq_writer"

# Two ways to fill the queue "Shop" of Lowkiq: by its keys, as LowkiqWriter writes them, or by the gem lowkiq itself. Payloads of an id
# are 1, 2, ..., which are their scores, too.
module LowkiqFills
  LATER = 7200 # seconds: when delayed ids are due
  ERROR = "no stock"

  # What is filled in, in names of ids.
  Ids = Struct.new(:waiting, :delayed, :retrying, :dead, :running, keyword_init: true) do
    # @param counts [Hash{Symbol => Integer}] names as the members'
    def self.of(counts) = new(**counts.to_h { |kind, count| [kind, Array.new(count) { |i| "#{kind}-#{i}" }] })

    # Those to which producers go on pushing, in `parts` parts.
    def produced(parts)
      ids = waiting.first(100) + delayed.first(20) + retrying.first(20) + running.first(20)
      ids.each_slice((ids.size / parts.to_f).ceil).to_a
    end
  end

  # Without the gem.
  class ByKeys
    def initialize(source)
      @source = LowkiqWriter.new(source, "Shop")
    end

    def fill(ids)
      time = Time.now.to_f + LATER
      ids.waiting.each { |id| @source.wait(id, { 1 => 1, 2 => 2 }) }
      ids.delayed.each { |id| @source.wait(id, { 1 => 1, 2 => 2 }, time: time) }
      ids.retrying.each { |id| @source.wait(id, { 1 => 1, 2 => 2 }, time: Time.now.to_f + 3600, retries: 0, error: ERROR) }
      ids.dead.each { |id| @source.bury(id, { 1 => 1 }, error: ERROR) }
      ids.running.each { |id| @source.process(id, { 1 => 1, 2 => 2 }) }
      time
    end

    # @return [#call] ends it; returns the number of the last payload that each of the ids has got
    def produce(ids)
      number = 2
      ended = false
      thread = Thread.new do
        until ended
          number += 1
          ids.each { |id| @source.wait(id, { number => number }) }
          sleep(0.02)
        end
      end
      -> { (ended = true) && thread.join && number }
    end

    def remove = nil
  end

  # By a server and producers of the gem lowkiq, which RubyGems installs into a temporary folder.
  class ByGem
    VERSION = "1.2.2"
    APPLICATION = File.expand_path("lowkiq_app.rb", __dir__)

    def initialize(source)
      @source = source
      @folder = Dir.mktmpdir("seriatim-lowkiq")
      @environment = { "GEM_HOME" => @folder, "GEM_PATH" => @folder, "REDIS_URL" => source.url, "RUBYOPT" => nil, "BUNDLE_GEMFILE" => nil }
      output, status = Open3.capture2e(@environment, "gem", "install", "--no-document", "lowkiq", "-v", VERSION)
      status.success? or raise "lowkiq is not installed: #{output}"
    end

    def fill(ids)
      fail_once(ids)
      leave_running(ids.running)
      time = Time.now.to_f + LATER
      push(ids.waiting)
      push(ids.delayed, perform_in: time)
      time
    end

    def produce(ids)
      input, output, waiter = Open3.popen2(@environment, RbConfig.ruby, APPLICATION, "produce")
      input.puts(JSON.generate(ids))
      lambda do
        input.close
        waiter.value.success? or raise "a producer of Lowkiq has failed"
        output.read.to_i
      end
    end

    def remove = FileUtils.rm_rf(@folder)

    private

    def key(name) = "lowkiq:A:v1:Shop:#{name}"

    # One payload after another: Lowkiq buries the first one of an id.
    def push(ids, numbers: [1, 2], **options)
      lines = ids.each_slice(500).map { |slice| JSON.generate(slice.flat_map { |id| numbers.map { |n| { id: id, payload: n, score: n, **options } } }) }
      _, status = Open3.capture2(@environment, RbConfig.ruby, APPLICATION, "push", stdin_data: lines.join("\n"))
      status.success? or raise "a push of Lowkiq has failed"
    end

    def fail_once(ids)
      push(ids.retrying)
      push(ids.dead, numbers: [1], retry_count: 2)
      server do
        wait { @source.call("ZCARD", key("morgue:all_ids_lex")).to_i == ids.dead.size && @source.call("ZCOUNT", key("all_ids_scored_by_retry_count"), 0, "+inf").to_i == ids.retrying.size }
      end
    end

    # Some are in process when the server is killed, the others wait.
    def leave_running(ids)
      push(ids)
      server { wait { Array.new(5) { |shard| @source.call("HLEN", key("processing:ids_with_perform_in:#{shard}")).to_i }.all?(&:positive?) } }
    end

    # Until the block has ended; then it is killed.
    def server
      pid = spawn(@environment, RbConfig.ruby, "-S", File.join(@folder, "bin/lowkiq"), "-r", APPLICATION, out: File::NULL, err: File::NULL)
      yield
    ensure
      Process.kill(:KILL, pid)
      Process.wait(pid)
    end

    def wait
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 240
      until yield
        raise "Lowkiq's server has not come so far in 240 s" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

        sleep(0.05)
      end
    end
  end
end
