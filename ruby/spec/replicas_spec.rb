# frozen_string_literal: true

require_relative "spec_helper"

# A push that waits until other Redis servers have it.
RSpec.describe "wait_replicas" do
  before(:context) do
    @port = RedisServer.free_port
    @master = RedisServer.new("--port", @port.to_s, "--repl-diskless-sync-delay", "0")
    @replica = RedisServer.new("--replicaof", "127.0.0.1 #{@port}")
  end

  after(:context) { [@master, @replica].each(&:remove) }

  before do
    Seriatim.redis = @master.url
    @master.flush
    eventually { @master.call("INFO", "replication")[/state=online/] }
  end

  let(:recorder) { worker("Replicated") }

  def jobs(count) = Array.new(count) { |i| { id: i, payload: "x" * 100 } }

  # While the replica answers nothing.
  def without_replica
    Process.kill(:STOP, @replica.pid)
    yield
  ensure
    Process.kill(:CONT, @replica.pid)
  end

  it "R-REPLICAS-1: returns when the replica has the push" do
    Seriatim.wait_replicas = 1
    Seriatim.wait_timeout = 10
    5.times do |round|
      expect(recorder.perform_async(jobs(2000))).to have_attributes(added: round.zero? ? 2000 : 0, folded: round.zero? ? 0 : 2000)
      expect(@replica.call("DBSIZE")).to eq(@master.call("DBSIZE"))
    end
    expect(recorder.perform_async([{ id: "one" }], wait_replicas: 1, wait_timeout: 10).added).to eq(1)
  end

  it "R-REPLICAS-2: says that too few replicas have the push, and that it is written", :core do
    without_replica do
      from = now
      expect { recorder.perform_async(jobs(3), wait_replicas: 1, wait_timeout: 0.3) }.to raise_error(Seriatim::NotReplicated) { |error|
        expect(error.message).to match(/written, 0 of 1/)
        expect(error.result).to have_attributes(added: 3, folded: 0, refused: 0)
      }
      expect(now - from).to be_between(0.25, 10)
      expect(recorder.metrics[:length]).to eq(3)
      expect(recorder.perform_async(jobs(3)).folded).to eq(3) # asks none
    end
    expect(recorder.perform_async(jobs(3), wait_replicas: 1, wait_timeout: 10).folded).to eq(3)
    expect { recorder.perform_async(jobs(3), wait_replicas: 2, wait_timeout: 4) }.to raise_error(Seriatim::NotReplicated, /1 of 2/)
  end

  it "R-REPLICAS-3: takes the module's settings unless a push gives its own" do
    Seriatim.wait_replicas = 1
    Seriatim.wait_timeout = 0.05
    without_replica do
      expect { recorder.perform_async(jobs(1)) }.to raise_error(Seriatim::NotReplicated, /0 of 1/)
      expect { recorder.queue.push(jobs(1)) }.to raise_error(Seriatim::NotReplicated)
      expect(recorder.perform_async(jobs(1), wait_replicas: 0).folded).to eq(1)
      expect(recorder.queue.push(jobs(1), wait_replicas: 0).folded).to eq(1)
      expect(recorder.perform_async([]).added).to eq(0)
    end
  end

  it "passes through overrides of perform_async and client middlewares" do
    recorder.define_singleton_method(:perform_async) { |jobs| super(jobs.map { |job| job.merge(payload: 1) }) }
    passing = worker("Passing")
    passing.define_singleton_method(:perform_async) { |jobs, **keywords| super(jobs, **keywords) }
    seen = []
    Seriatim.client_middlewares << ->(worker, jobs, &block) { (seen << [worker, jobs.size]) && block.call }
    Seriatim.wait_replicas = 1
    Seriatim.wait_timeout = 0.05
    without_replica do
      expect { recorder.perform_async(jobs(2)) }.to raise_error(Seriatim::NotReplicated)
      expect(passing.perform_async(jobs(2), wait_replicas: 0).added).to eq(2)
    end
    expect(seen).to eq([[recorder, 2], [passing, 2]])
  end

  it "R-REPLICAS-4: refuses numbers out of range", :core do
    expect { Seriatim.wait_replicas = -1 }.to raise_error(Seriatim::Invalid, /wait_replicas must be an Integer from 0 to 1000, not -1/)
    expect { Seriatim.wait_timeout = 0 }.to raise_error(Seriatim::Invalid, /wait_timeout must be/)
    expect { recorder.perform_async([{ id: 1 }], wait_replicas: "1") }.to raise_error(Seriatim::Invalid, /wait_replicas/)
    expect { recorder.perform_async([{ id: 1 }], wait_timeout: Float::NAN) }.to raise_error(Seriatim::Invalid, /wait_timeout/)
    expect(recorder.metrics[:length]).to eq(0)
  end

  it "does not apply to the next push of the connection" do
    Seriatim.client_pool_size = 1
    without_replica do
      expect { recorder.perform_async(jobs(1), wait_replicas: 1, wait_timeout: 0.3) }.to raise_error(Seriatim::NotReplicated)
      from = now
      100.times { recorder.perform_async(jobs(1)) }
      expect(now - from).to be < 20 # not a hundred waits
    end
  end

  it "is interrupted by a signal like every other wait" do
    without_replica do
      pushing = Thread.new { recorder.perform_async(jobs(1), wait_replicas: 1, wait_timeout: 10, push_timeout: 50) }
      pushing.report_on_exception = false
      eventually { recorder.metrics[:length] == 1 }
      pushing.raise(Timeout::Error)
      expect { pushing.value }.to raise_error(Timeout::Error)
    end
  end
end
