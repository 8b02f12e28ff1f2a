# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"

# What user code may do to the server around its job.
RSpec.describe "the server's threads" do
  def fork_safe = (skip "ASan does not survive a fork of threads" if ENV["LD_PRELOAD"].to_s.include?("asan"))

  # An id, and the payloads it is given: JSON but for the words that the codec knows.
  def load_payload
    lambda do |bytes|
      case bytes
      when "raise" then raise Exception, "cannot"
      when "exit" then exit
      when "throw" then throw :nowhere
      when "kill" then Thread.exit
      else bytes
      end
    end
  end

  it "F12 buries 1 broken payload of 1,000 with its bytes and the reason, and runs the rest" do
    recorder = worker("Broken", batch_size: 10, shards_count: 2)
    jobs = (1..999).map { |i| { id: i, payload: i } }
    worker("Broken", codec: :raw, shards_count: 2).perform_async([{ id: 500, payload: "{\"broken\xFF" }])
    recorder.perform_async(jobs)
    serve(recorder)
    drained(recorder)
    seen = runs(recorder, recorder.runs.size).flat_map { |run| run.payloads.to_a }
    expect(seen).to match_array((1..999).map { |i| [i.to_s, [i]] })
    dead = recorder.queries.morgue_fetch([500]).first
    expect(dead[:payloads].map { |payload, _| payload }).to eq(["{\"broken\xFF".b])
    expect(dead[:error]).to match(/undecodable payload: .*Undecodable/)
    expect(recorder.metrics).to include(processed: 999, morgue_length: 1, length: 0)
  end

  %w[raise exit throw kill].each do |word|
    it "F12 a codec that leaves by #{word} costs that payload alone" do
      recorder = worker("Codec", batch_size: 5, shards_count: 1, codec: [:to_s.to_proc, load_payload])
      recorder.perform_async((1..9).map { |i| { id: i, payload: "ok" } } + [{ id: 5, payload: word }])
      server = serve(recorder, threads: 1)
      drained(recorder)
      expect(runs(recorder, recorder.runs.size).flat_map { |run| run.payloads.keys }).to match_array(("1".."9").to_a)
      expect(worker("Codec", shards_count: 1, codec: :raw).queries.morgue_fetch([5]).first).to include(payloads: [[word, anything]], error: /undecodable payload/)
      expect(recorder.metrics).to include(processed: 9, morgue_length: 1)
      expect(server.stop(30)).to be(true)
    end
  end

  # What the block raises while no descriptor is free.
  def without_descriptors
    limits = Process.getrlimit(:NOFILE)
    yield -> { Process.setrlimit(:NOFILE, File.open(File::NULL, &:fileno), limits.last) }
    nil
  rescue Seriatim::Error => e
    e
  ensure
    Process.setrlimit(:NOFILE, *limits)
  end

  it "refuses before its start what only a running server knows" do
    server = Seriatim::Server.new(workers: [worker("Early")])
    %i[stats quiet].each { |call| expect { server.public_send(call) }.to raise_error(Seriatim::Closed, "the server has not started") }
    expect([server.stop, server.running?]).to eq([true, false])
  end

  it "a start that gets no descriptor raises an error that blames no Redis, and may be tried again" do
    recorder = worker("Descriptors")
    server = Seriatim::Server.new(workers: [recorder])
    (@servers ||= []) << server
    error = without_descriptors { |limit| server.start(&limit) }
    expect(error).to be_instance_of(Seriatim::Error).and have_attributes(message: start_with("cannot open a pipe: "))
    expect([server.stop(0), server.running?, Seriatim::Server.running]).to eq([true, false, []])
    server.start
    recorder.perform_async([{ id: 1 }])
    runs(recorder)
  end

  it "a start that gets only some of its threads raises an error, and leaves none of them" do
    server = Seriatim::Server.new(workers: [worker("Threads")], threads: 3)
    hosts = 0
    server.define_singleton_method(:spawn) { |host| (hosts += 1) == 3 ? raise(ThreadError, "can't create Thread") : super(host) }
    expect { server.start }.to raise_error(Seriatim::Error, "can't create Thread")
    expect([server.stop, server.running?, Seriatim::Server.running, Seriatim::Metrics.nodes]).to eq([false, false, [], []])
    expect(Thread.list.map(&:name).grep(/seriatim/)).to eq([])
  end

  it "F9 a job that kills every other thread leaves a server that works" do
    recorder = worker("Killer", shards_count: 1) do |payloads, _|
      Thread.list.each { |thread| thread.kill if thread.name&.start_with?("seriatim") && thread != Thread.current } if payloads.key?("kill")
    end
    server = serve(recorder, threads: 3)
    3.times do
      recorder.perform_async([{ id: "kill" }])
      runs(recorder)
    end
    sleep Seriatim.lease_time + 1 # longer than the lease, which somebody must have renewed
    recorder.perform_async([{ id: "after" }])
    runs(recorder)
    expect(Thread.list.map(&:name).grep(/\Aseriatim/).tally).to eq("seriatim 0" => 3, "seriatim heartbeat" => 1)
    expect(server.stop(30)).to be(true)
    expect(recorder.metrics).to include(processed: 4, failed: 0, refused: 0)
  end

  {
    "raising" => ->(_) { raise Exception, "no" }, "throwing" => ->(_) { throw :nowhere }, "exiting" => ->(_) { exit },
    "giving nonsense" => ->(_) { 5 }, "taking nothing" => -> {}, "ending its thread" => ->(_) { Thread.exit },
    "spoiling the list" => ->(list) { list.clear && 1 }
  }.each do |name, scheduler|
    it "F32 survives a scheduler #{name}" do
      Seriatim.build_scheduler = -> { scheduler }
      recorder = worker("Scheduled")
      recorder.perform_async(Array.new(20) { |i| { id: i } })
      server = serve(recorder, threads: 2)
      runs(recorder, 20)
      expect(server.stop(30)).to be(true)
    end
  end

  it "F32 survives a retries_exhausted that leaves in any way" do
    ways = [-> { raise Exception, "no" }, -> { exit }, -> { throw :nowhere }, -> { Thread.exit }]
    recorder = worker("Dead", max_retry_count: 0, shards_count: 1) { raise "x" }
    recorder.define_singleton_method(:retries_exhausted) { |jobs| ways.fetch(jobs.first[:id].to_i).call }
    recorder.perform_async(Array.new(4) { |i| { id: i } })
    server = serve(recorder, threads: 1)
    eventually { recorder.metrics.values_at(:morgue_length, :length, :busy) == [4, 0, 0] }
    expect(server.stop(30)).to be(true)
  end

  it "F32 shows as it is stored what load_payload and load_error cannot read" do
    recorder = worker("Shown", shards_count: 1, codec: [:to_s.to_proc, ->(_) { raise NotImplementedError, "load" }])
    recorder.perform_async([{ id: 1, payload: "broken" }])
    serve(recorder)
    eventually { recorder.metrics[:morgue_length] == 1 }
    Seriatim.load_error = ->(_) { raise NotImplementedError, "load" }
    expect(recorder.queries.morgue_fetch([1]).first).to include(payloads: [["broken", anything]], error: /undecodable payload: NotImplementedError: load/)
  end

  it "F32 a client hook that raises writes nothing and tells" do
    recorder = worker("Client")
    Seriatim.client_middlewares << ->(_, _) { raise NotImplementedError, "client" }
    expect { recorder.perform_async([{ id: 1 }]) }.to raise_error(NotImplementedError, "client")
    Seriatim.client_middlewares.clear
    Seriatim.dump_payload = ->(_) { raise NotImplementedError, "dump" }
    expect { recorder.perform_async([{ id: 1 }]) }.to raise_error(NotImplementedError, "dump")
    Seriatim.dump_payload = ->(_) { nil }
    expect { recorder.perform_async([{ id: 1 }]) }.to raise_error(Seriatim::Invalid, /dump_payload must return a String/)
    Seriatim.dump_payload = nil
    expect(recorder.metrics[:length]).to eq(0)
    expect(recorder.perform_async([{ id: 1 }]).added).to eq(1)
  end

  it "F32 a hook that raises at the start ends the start, by name" do
    Seriatim.on_server_init = -> { raise "init" }
    expect { serve(worker("Init")) }.to raise_error("init")
    Seriatim.on_server_init = nil
    Seriatim.build_splitter = -> { ->(_) { raise "split" } }
    expect { serve(worker("Init")) }.to raise_error("split")
    expect(Seriatim::Metrics.nodes).to eq([])
  end

  it "F19 a child that a job forks ends as its program says, and settles nothing" do
    fork_safe
    codes = Thread::Queue.new
    recorder = worker("Fork") do |payloads, _|
      pid = fork
      if pid.nil?
        case payloads.values.first.first
        when "exit" then exit(3)
        when "exit!" then exit!(4)
        when "raise" then raise "in the child"
        when "kill" then Thread.exit
        else next
        end
      end
      codes << Process.wait2(pid).last.exitstatus
    end
    server = serve(recorder, threads: 1)
    { "exit" => 3, "exit!" => 4, "raise" => 1, "kill" => 0, "return" => 0 }.each do |word, code|
      recorder.perform_async([{ id: word, payload: word }])
      expect(Timeout.timeout(60) { codes.pop }).to eq(code), word
    end
    drained(recorder)
    expect(recorder.metrics).to include(processed: 5, failed: 0, refused: 0)
    expect(server.stop(30)).to be(true)
  end
end
