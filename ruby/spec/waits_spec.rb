# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"
require_relative "../../spec/support/figures"

# What interrupts threads that wait for Redis, and what ends the interpreter below them.
RSpec.describe "threads that wait for jobs", limit: Figures.count(240, 600) do
  around do |example|
    Dir.mktmpdir do |folder|
      @folder = folder
      @deaf = UNIXServer.new(File.join(folder, "deaf")) # accepts, never answers
      example.run
    ensure
      @deaf.close
    end
  end

  def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def script(name) = File.join(__dir__, "support", name)

  # The milliseconds from each signal to its handler's line. id: of the process or of one of its threads.
  def measured(io, signal, times, id = io.pid)
    Array.new(times) do
      sleep(0.01 + (rand * 0.02))
      from = monotonic
      Process.kill(signal, id)
      (io.gets.to_f - from) * 1000
    end
  end

  %w[none exited sleeping busy waiting].each do |other|
    it "F20 a signal's handler runs at once while the main thread waits, beside a thread that is #{other}" do
      times = Figures.count(5, 100)
      IO.popen(Command::NEUTRAL, [*Command::RUBY, script("waiting.rb"), "unix://#{@deaf.path}", other]) do |io|
        delays = %w[push query pool].flat_map do |wait|
          expect(io.gets).to eq("#{wait}\n")
          sleep 0.1 # "pool" has threads to start
          measured(io, :USR1, times) + measured(io, :USR2, 1)
        end
        expect(delays.sort[delays.size / 2]).to be < 7500 # 5 ms on a quiet machine; a wait for Redis takes 15,000
        Figures.note("F20", "a signal to its handler, beside: #{other}", format("p50 %.1f ms, longest %.1f ms", delays.sort[delays.size / 2], delays.max))
      end
      expect($?.exitstatus).to eq(0)
    end
  end

  # Linux: kill(2) with the id of a thread prefers that thread, if it does not block the signal, as all of Ruby's do not.
  %w[sleeping waiting].each do |other|
    it "F20 a signal's handler runs at once, whichever thread receives it, beside a thread that is #{other}" do
      IO.popen(Command::NEUTRAL, [*Command::RUBY, script("waiting.rb"), "unix://#{@deaf.path}", other]) do |io|
        delays = %w[push query pool].flat_map do |wait|
          expect(io.gets).to eq("#{wait}\n")
          sleep 0.1 # most signals come when the main thread waits already
          threads = Dir.children("/proc/#{io.pid}/task").map { |id| Integer(id) } - [io.pid]
          expect(threads).not_to be_empty
          threads.flat_map { |id| measured(io, :USR1, 1, id) } + measured(io, :USR2, 1, threads.first)
        end
        expect(delays.max).to be < 7500 # 5 ms on a quiet machine; a wait for Redis takes 15,000
      end
      expect($?.exitstatus).to eq(0)
    end
  end

  it "F23 the interpreter ends soon, with its exit code, while threads wait and run; no job is charged", :slow do
    codes = { "exit" => "7", "raise" => "1", "abort" => "1", "return" => "0", "exit in a thread" => "7",
              "the end of the main thread" => "0", "exit at exit" => "7", "an unhandled TERM" => "TERM", "an interrupted stop" => "7" }
    count = Figures.count(18, 200)
    output, status = Open3.capture2e(Command::NEUTRAL, "timeout", Figures.count("220", "500"), *Command::RUBY, script("ending.rb"), REDIS.url, "unix://#{@deaf.path}",
                                     count.to_s, File.join(@folder, "began"))
    expect(status.exitstatus).to eq(0), output
    ends = output.lines(chomp: true).map { |line| line.split(",") }
    expect(ends.map { |name, _, code| [name, code] }.uniq).to match_array(codes.to_a)
    expect(ends.filter_map { |name, *, handed_back| name unless handed_back == "true" }).to eq([])
    times = ends.map { |_, seconds, _| seconds.to_f * 1000 }.sort
    expect(times[times.size / 2]).to be < 10_000 # a wait for Redis takes 15,000
    expect(worker("Ending", shards_count: 2).metrics).to include(failed: 0, refused: 0)
    Figures.note("F23", "ends of the interpreter, exit codes kept", format("%d, p50 %.0f ms, longest %.0f ms", count, times[times.size / 2], times.last))
  end

  %w[exit stop].each do |way|
    it "F23 the interpreter ends soon by #{way} while Redis is away and its server looks up a name" do
      redis = RedisServer.new("--port", (port = RedisServer.free_port).to_s)
      from = File.join(@folder, "from")
      environment = { **Command::NEUTRAL, **slow_resolver(@folder, milliseconds: 60_000), "SLOW_RESOLVER_FROM" => from }
      IO.popen(environment, [*Command::RUBY, script("looked_up.rb"), "redis://slow.test:#{port}", way], "r+") do |io|
        expect(io.gets).to eq("started\n")
        FileUtils.touch(from)
        redis.stop
        eventually { !File.exist?(from) }
        began = monotonic
        io.puts
        expect(io.read).to eq("")
        expect(monotonic - began).to be < 30 # 2 s on a quiet machine
      end
      expect($?.exitstatus).to eq(7)
    ensure
      redis&.remove
    end
  end
end
