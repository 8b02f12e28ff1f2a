# frozen_string_literal: true

require_relative "spec_helper"

# One unmasked block runs many deliveries, each in the place of the one before. spec/boundary_spec.rb: the ways to leave it.
RSpec.describe "deliveries for which nothing but perform is called" do
  def fork_safe = (skip "ASan does not survive a fork of threads" if ENV["LD_PRELOAD"].to_s.include?("asan"))

  def host_threads = Thread.list.select { |thread| thread.name == "seriatim 0" }

  it "run in order, on many threads, each payload once" do
    done = Thread::Queue.new
    plain = plain_worker { |payloads| payloads.each { |id, list| list.each { |n| done << [id, n] } } }
    (1..20).each { |n| plain.perform_async(Array.new(100) { |id| { id: id, payload: n } }) }
    serve(plain, threads: 4)
    drained(plain)
    seen = Array.new(done.size) { done.pop }.group_by(&:first).transform_values { |list| list.map(&:last) }
    expect(seen).to eq(Array.new(100) { |id| [id.to_s, (1..20).to_a] }.to_h)
    expect(plain.metrics).to include(processed: 100, failed: 0)
  end

  it "F9 fail alone, whoever raises into their thread and whenever, and none is lost", limit: 400 do
    count = 3000
    plain = plain_worker(max_retry_count: 100_000) { |payloads| payloads.sum { |_, list| list.size } }
    plain.define_singleton_method(:retry_in) { |_| 0 }
    plain.perform_async(Array.new(count) { |id| { id: id } })
    server = serve(plain, threads: 3)
    boom = Class.new(Exception) # rubocop:disable Lint/InheritException
    eventually(300) do
      host_threads.sample&.then { |thread| rand < 0.3 ? thread.kill : thread.raise(boom, "from outside") }
      sleep rand * 0.002
      plain.metrics[:processed] == count
    end
    drained(plain)
    expect(plain.metrics).to include(processed: count, busy: 0, refused: 0)
    expect(server.stop(30)).to be(true)
  end

  it "fail when they are interrupted, and their thread takes the next" do
    begun = Thread::Queue.new
    plain = plain_worker(shards_count: 1) { |payloads| payloads.key?("0") && (begun << true) && sleep }
    plain.define_singleton_method(:retry_in) { |_| 60 }
    plain.perform_async([{ id: "0" }])
    server = serve(plain, threads: 1)
    begun.pop
    host_threads.first.raise("first")
    eventually { plain.metrics[:retries] == 1 }
    expect(plain.queries.fetch(["0"]).first[:error]).to eq("first")
    plain.perform_async([{ id: "1" }])
    eventually { plain.metrics[:processed] == 1 }
    expect(log).not_to include("another thread takes its place")
    expect(server.stop(30)).to be(true)
  end

  it "F9 fail with StopIteration as with any other error" do
    plain = plain_worker { |payloads| raise StopIteration, "no more" if payloads.key?("bad") }
    plain.define_singleton_method(:retry_in) { |_| 60 }
    plain.perform_async([{ id: "bad" }, { id: "good" }])
    serve(plain, threads: 1)
    eventually { plain.metrics.values_at(:processed, :failed) == [1, 1] }
  end

  it "log a failure with the time of its own delivery" do
    plain = plain_worker(shards_count: 1) { |payloads| payloads.key?("bad") ? raise("bad") : sleep(0.05) }
    plain.define_singleton_method(:retry_in) { |_| 0 }
    plain.perform_async([*Array.new(10) { |id| { id: id } }, { id: "bad" }])
    serve(plain, threads: 1)
    eventually { plain.metrics[:processed] == 10 && log.scan(/id=bad/).size >= 5 }
    expect(log.scan(/id=bad.*?elapsed=(\S+)/).map { |(seconds)| seconds.to_f }.min).to be < 0.3 # a machine may be busy with other things
  end

  it "run with a middleware, a debug log and a codec that are set while they run" do
    seen = Thread::Queue.new
    plain = plain_worker { |payloads| (seen << payloads.values.first.first) && sleep(0.01) }
    push = -> { plain.perform_async(Array.new(20) { |id| { id: id, payload: "p" } }) }
    push.call
    serve(plain, threads: 1)
    seen.pop
    Seriatim.server_middlewares << ->(_, batch, &block) { (seen << [batch.ids, batch.size]) && block.call }
    expect(eventually { push.call && seen.pop(true).then { |first| first if first.is_a?(Array) } rescue nil }).to match([[/\A\d+\z/], 1]) # rubocop:disable Style/RescueModifier
    Seriatim.server_middlewares.clear
    Seriatim.logger.level = Logger::DEBUG
    eventually { push.call && (log.include?("done q=Plain") || log[/^DEBUG .* done/]) }
    Seriatim.logger.level = Logger::INFO
    Seriatim.load_payload = ->(bytes) { "own #{bytes}" }
    eventually { push.call && seen.pop == 'own "p"' }
  end

  it "run beside workers that take the batch, which keep their own batches" do
    kept = Thread::Queue.new
    plain = plain_worker("A") { |_| nil }
    taking = worker("B") { |_, batch| kept << [batch, batch.ids] }
    plain.perform_async(Array.new(200) { |id| { id: "a#{id}" } })
    taking.perform_async(Array.new(50) { |id| { id: "b#{id}" } })
    Seriatim.logger.level = Logger::INFO
    serve(plain, taking, threads: 1)
    [plain, taking].each { |each| drained(each) }
    batches = Array.new(kept.size) { kept.pop }
    expect(batches.flat_map(&:last).sort).to eq(Array.new(50) { |id| "b#{id}" }.sort)
    batches.each do |batch, ids|
      expect(batch.ids).to eq(ids)
      expect { batch.fence(ids.first) }.to raise_error(Seriatim::Closed)
    end
  end

  it "keep the batch's ids though user code changes the Hash, and extend them all" do
    taking = worker("Mutated", batch_size: 3, shards_count: 1, ttr: 3) do |payloads, batch|
      payloads.clear
      batch.extend(60)
      batch.fail(batch.ids.last, "last")
      sleep 4
    end
    taking.define_singleton_method(:retry_in) { |_| 60 }
    taking.perform_async(%w[a b c].map { |id| { id: id } })
    serve(taking, threads: 1)
    eventually { taking.metrics.values_at(:processed, :failed, :refused) == [2, 1, 0] }
    expect(taking.queries.range_by_id("-", "+").map { |record| record[:error] }).to eq(["last"])
  end

  it "refuse checkpoints and snoozes that cannot be" do
    refused = Thread::Queue.new
    taking = worker("Refused", shards_count: 1) do |_payloads, batch|
      calls = [-> { batch.checkpoint("b", 1) }, -> { batch.checkpoint("a", 2) }, -> { batch.checkpoint("a", 0.5) }, -> { batch.snooze("a", -1) },
               -> { batch.snooze("a", 1, payloads: 1) }, -> { batch.snooze("a", 1, payload: "x" * 1_048_575) }]
      calls.each do |call|
        call.call
        refused << "nothing"
      rescue ArgumentError => e
        refused << e.message
      end
    end
    taking.perform_async([{ id: "a" }])
    serve(taking, threads: 1)
    expect(Array.new(6) { refused.pop }).to match(
      [/the batch holds no id "b"/, /checkpoint of 2 payloads: the id has 1 in this batch/, /count must be an Integer/,
       /seconds must be a number of seconds/, /unknown keyword: :payloads/,
       /\Apayload is 1048577 bytes long; at most 1048576 are allowed: store it elsewhere and pass its key\z/]
    )
  end

  it "F19 are not taken by a child that one of them forks" do
    fork_safe
    ran = Thread::Queue.new
    plain = plain_worker(shards_count: 1) do |payloads|
      pid = fork
      next if pid.nil? # the child's perform returns

      ran << [payloads.keys, Process.wait2(pid).last.exitstatus]
    end
    plain.perform_async(Array.new(5) { |id| { id: id } })
    server = serve(plain, threads: 1)
    eventually { ran.size == 5 }
    expect(Array.new(5) { ran.pop }.sort).to eq(Array.new(5) { |id| [[id.to_s], 0] })
    expect(server.stop(30)).to be(true)
    expect(plain.metrics).to include(processed: 5, failed: 0, refused: 0)
  end
end
