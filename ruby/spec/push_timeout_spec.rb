# frozen_string_literal: true

require_relative "spec_helper"

# How long a push may take, whatever happens to Redis.
RSpec.describe "push_timeout" do
  before do
    @port = RedisServer.free_port
    @redis = RedisServer.new("--port", @port.to_s)
    Seriatim.redis = "redis://127.0.0.1:#{@port}"
    recorder.perform_async([{ id: "first" }])
  end

  after { @redis.remove }

  let(:recorder) { worker("Limited") }

  def elapsed
    before = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - before
  end

  def stopped
    Process.kill(:STOP, @redis.pid)
    yield
  ensure
    Process.kill(:CONT, @redis.pid)
  end

  def refused(error, message, **options)
    took = elapsed { expect { recorder.perform_async([{ id: 1 }], **options) }.to raise_error(error, message) }
    expect(took).to be_between(0.45, 20)
  end

  it "F4, R-TIMEOUT-1: a stopped Redis leaves the outcome unknown after that time, of the first push only: no other was sent" do
    stopped do
      refused(Seriatim::OutcomeUnknown, /outcome unknown/, push_timeout: 0.5)
      Seriatim.push_timeout = 0.6
      refused(Seriatim::TimeoutError, /timed out/)
    end
  end

  it "F5, R-TIMEOUT-2: a Redis that was killed before the push is an error that names it and the setting: nothing was sent" do
    @redis.stop
    sleep 0.1
    refused(Seriatim::Error, /cannot connect to .*refused; start Redis there, or correct Seriatim\.redis\z/, push_timeout: 0.5)
  end

  it "R-TIMEOUT-3: includes the wait for a connection" do
    Seriatim.client_pool_size = 1
    Seriatim.push_timeout = 50
    stopped do
      other = Thread.new { recorder.perform_async([{ id: 2 }], push_timeout: 3) rescue nil } # rubocop:disable Style/RescueModifier
      sleep 0.1
      refused(Seriatim::PoolTimeout, /no free connection in 0\.5 s/, push_timeout: 0.5)
      other.join
    end
  end

  it "R-TIMEOUT-3: includes the wait for replicas, whose error says that the push is written" do
    refused(Seriatim::NotReplicated, "the push is written, 0 of 1 replicas have it", wait_replicas: 1, wait_timeout: 10, push_timeout: 0.9)
  end

  it "R-TIMEOUT-4: is from 0.1 to 50 seconds" do
    [0.09, 50.1, "1", nil].each { |given| expect { Seriatim.push_timeout = given }.to raise_error(Seriatim::Invalid, /push_timeout must be/) }
    expect { recorder.perform_async([{ id: 1 }], push_timeout: 51) }.to raise_error(Seriatim::Invalid, /push_timeout must be/)
    %i[push_timeout wait_replicas wait_timeout].each do |limit| # false is not "as the setting says"
      expect { recorder.perform_async([{ id: 1 }], limit => false) }.to raise_error(Seriatim::Invalid, /#{limit} must be/)
    end
    Seriatim.reset_settings
    expect(Seriatim.push_timeout).to eq(10)
  end
end
