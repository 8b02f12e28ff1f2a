# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"

RSpec.describe "the pool of connections" do
  let(:recorder) { worker("Pool") }

  # After a fork ASan's allocator may wait for a thread that is not there.
  before { |example| skip "ASan does not survive a fork of threads" if example.metadata[:forks] && ENV["LD_PRELOAD"].to_s.include?("asan") }

  # A Redis that accepts and never answers.
  def deaf
    folder = Dir.mktmpdir
    server = UNIXServer.new(File.join(folder, "s"))
    Seriatim.redis = "unix://#{server.path}"
    yield
  ensure
    server&.close
    FileUtils.rm_rf(folder)
  end

  # How many connections are lent, or being made.
  def in_use
    pool = Seriatim.const_get(:Pool).current
    pool.instance_variable_get(:@made) - pool.instance_variable_get(:@idle).size
  end

  it "raises an error that says that all connections are busy" do
    deaf do
      Seriatim.client_pool_size = 1
      Seriatim.pool_timeout = 0.1
      holder = Thread.new { recorder.metrics }
      holder.report_on_exception = false
      eventually { in_use == 1 }
      expect { recorder.metrics }.to raise_error(Seriatim::PoolTimeout, /no free connection in 0\.1 s: all 1/)
    ensure
      holder.kill.join
    end
  end

  it "survives Timeout, kill and raise during a wait, and leaks no descriptor", :core do
    deaf do
      Seriatim.client_pool_size = 1
      3.times do
        expect { Timeout.timeout(0.05) { recorder.perform_async([{ id: 1 }]) } }.to raise_error(Timeout::Error)
        thread = Thread.new { recorder.metrics }
        sleep 0.02
        expect(thread.kill.join(60)).to eq(thread)
        thread = Thread.new { recorder.metrics }
        thread.report_on_exception = false
        sleep 0.02
        thread.raise("async")
        expect { thread.join(60) }.to raise_error("async")
      end
    end
    Seriatim.redis = REDIS.url
    before = Dir.children("/proc/self/fd").size
    60.times do |i|
      thread = Thread.new { recorder.perform_async(Array.new(500) { |n| { id: n, payload: i } }) }
      sleep(rand * 0.01)
      thread.kill.join
    end
    expect(recorder.perform_async([{ id: "last" }]).added).to eq(1)
    expect(recorder.queries.fetch(["last"]).size).to eq(1)
    expect(Dir.children("/proc/self/fd").size).to be <= before + Seriatim.client_pool_size
  end

  # Ends the first of two threads that wait for the only connection, in the moment in which it comes back.
  def end_first_waiter(pool)
    waiting = nil
    pool.with do
      waiting = Array.new(2) do
        thread = Thread.new { pool.with { true } }
        thread.report_on_exception = false
        eventually { thread.status == "sleep" }
        thread
      end
      yield waiting.first
    end
    waiting.last.join(10)&.value
  end

  { "killed" => :kill.to_proc, "interrupted" => ->(thread) { thread.raise("async") } }.each do |name, ending|
    it "gives the connection to another thread where the one that would get it is #{name}" do
      Seriatim.client_pool_size = 1
      Seriatim.pool_timeout = 60
      pool = Seriatim.const_get(:Pool).current
      20.times { expect(end_first_waiter(pool, &ending)).to be(true) }
    end
  end

  describe "that other settings have replaced" do
    before do
      Seriatim.client_pool_size = 1
      Seriatim.pool_timeout = 2
    end

    let(:pool) { Seriatim.const_get(:Pool).current }

    it "serves who waits when its connection comes back" do
      waiting = nil
      pool.with do
        waiting = Thread.new { pool.with { true } }
        waiting.report_on_exception = false
        eventually { waiting.status == "sleep" }
        Seriatim.pool_timeout = 30
      end
      expect(waiting.value).to be(true)
      expect(pool.instance_variable_get(:@idle)).to eq([])
    end

    it "serves who has found it before" do
      pool.with { true }
      Seriatim.pool_timeout = 30
      expect(pool.with { true }).to be(true)
      expect(pool.instance_variable_get(:@made)).to eq(0)
    end
  end

  it "lets other threads run while one waits" do
    deaf do
      waiting = Thread.new { recorder.metrics }
      eventually { in_use == 1 }
      20.times { sleep 0.005 }
      expect(in_use).to eq(1) # without other threads the wait would have ended first
    ensure
      waiting.kill.join
    end
  end

  it "F19: works in a child of fork and leaves the parent's connections alone", :forks do
    recorder.perform_async([{ id: "parent" }])
    children = Array.new(3) do |i|
      fork do
        20.times { |n| recorder.perform_async([{ id: "child#{i}-#{n}" }]) }
        exit!(recorder.queries.fetch(["parent"]).size == 1 ? 0 : 1)
      end
    end
    50.times { |n| recorder.perform_async([{ id: "p#{n}" }]) }
    expect(children.map { |pid| Process.wait2(pid).last.exitstatus }).to eq([0, 0, 0])
    expect(recorder.metrics[:length]).to eq(111)
  end

  it "F19: a child of fork ends well though another thread of its parent was connecting", :forks do
    Dir.mktmpdir do |folder|
      environment = { **Command::NEUTRAL, **slow_resolver(folder, milliseconds: 60_000) }
      output, = Open3.capture2e(environment, *Command::RUBY, File.join(__dir__, "support/forking.rb"), "redis://slow.test:1")
      expect(output).to match(/\Apid \d+ exit 7\n\z/)
    end
  end

  it "F19: a server is its process's; the child may have another", :forks do
    server = serve(recorder)
    pid = fork do
      begin
        server.stats
        exit!(1)
      rescue Seriatim::Closed
        GC.start
      end
      mine = Seriatim::Server.new(workers: [recorder]).start
      exit!(mine.stop ? 0 : 2)
    end
    expect(Process.wait2(pid).last.exitstatus).to eq(0)
    recorder.perform_async([{ id: 1 }])
    runs(recorder)
  end

  it "F19: a server that was made before a fork does not start in the child", :forks do
    server = Seriatim::Server.new(workers: [recorder])
    pid = fork do
      server.start
      exit!(1)
    rescue Seriatim::Closed => e
      exit!(e.message.include?("create another one after fork") && server.stop ? 0 : 2)
    end
    expect(Process.wait2(pid).last.exitstatus).to eq(0)
    server.start
    expect(server.stop).to be(true)
  end

  it "serves many threads over few connections" do
    Seriatim.client_pool_size = 2
    Seriatim.pool_timeout = 60
    threads = Array.new(20) { |t| Thread.new { 20.times { |i| recorder.perform_async([{ id: "#{t}-#{i}" }]) } } }
    threads.each(&:join)
    expect(recorder.metrics[:length]).to eq(400)
    expect(REDIS.call("CLIENT", "LIST").scan("name=seriatim-client").size).to be <= 2
  end

  it "calls a callable for the URL, and refuses an invalid one" do
    Seriatim.redis = -> { REDIS.url }
    expect(recorder.perform_async([{ id: 1 }]).added).to eq(1)
    Seriatim.redis = -> { 5 }
    expect { recorder.perform_async([{ id: 1 }]) }.to raise_error(Seriatim::Invalid, /redis must be/)
    Seriatim.redis = -> { "http://x" }
    expect { recorder.perform_async([{ id: 1 }]) }.to raise_error(Seriatim::Invalid, %r{scheme must be redis://.* or rediss\+cluster://, not http://; correct Seriatim.redis\z})
  end

  it "names a refused connection" do
    Seriatim.redis = "unix:///no/such/socket"
    link = Seriatim.module_eval { const_get(:Connection) }.new(Seriatim.redis, "seriatim")
    expect { link.layout(recorder.queue_settings, limit: 0.3) }.to raise_error(Seriatim::ConnectionError)
  end
end
