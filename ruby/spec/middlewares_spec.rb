# frozen_string_literal: true

require_relative "spec_helper"

RSpec.describe "middlewares" do
  let(:recorder) { worker("Middle") }

  it "R-MIDDLEWARE-1: calls the first outermost", :core do
    trace = Thread::Queue.new
    %w[A B].each do |name|
      Seriatim.server_middlewares << lambda do |worker, batch, &block|
        trace << "#{name}-in #{worker.queue_name} #{batch.map { |id, payloads| [id, payloads] }}"
        block.call
        trace << "#{name}-out"
      end
    end
    recorder.perform_async([{ id: 1, payload: 2 }])
    serve(recorder)
    runs(recorder)
    seen = Array.new(4) { trace.pop }
    expect(seen).to eq(['A-in Middle [["1", [2]]]', 'B-in Middle [["1", [2]]]', "B-out", "A-out"])
  end

  it "R-MIDDLEWARE-2: takes ids as done where one does not continue, and calls one that was added later" do
    serve(recorder)
    recorder.perform_async([{ id: 1 }])
    runs(recorder)
    Seriatim.server_middlewares << ->(_, _) {}
    recorder.perform_async([{ id: 2 }])
    eventually { recorder.metrics[:processed] == 2 }
    expect(recorder.runs).to be_empty
  end

  it "R-MIDDLEWARE-3: shows jobs to client middlewares before the write, which may add to them", :core do
    Seriatim.client_middlewares << lambda do |worker, jobs, &block|
      jobs.each { |job| job[:context] = { "trace" => "#{worker.queue_name}-#{job[:id]}" } }
      block.call
    end
    seen = Thread::Queue.new
    tracing = worker("Tracing") { |_, batch| seen << batch.contexts(1) }
    expect(tracing.perform_async([{ id: 1 }]).added).to eq(1)
    serve(tracing)
    expect(seen.pop).to eq([{ "trace" => "Tracing-1" }])
  end

  it "R-MIDDLEWARE-4: writes nothing where a client middleware does not continue" do
    Seriatim.client_middlewares << ->(_, _) {}
    expect(recorder.perform_async([{ id: 1 }])).to have_attributes(added: 0, folded: 0, refused: 0)
    expect(recorder.metrics[:length]).to eq(0)
  end

  it "takes String keys from them, and refuses unknown ones" do
    Seriatim.client_middlewares = [->(_, jobs, &block) { jobs.each { |job| job["score"] = 7 } and block.call }]
    recorder.perform_async([{ id: 1 }])
    expect(recorder.queries.fetch([1]).first[:payloads]).to eq([["", 7.0]])
    Seriatim.client_middlewares = [->(_, jobs, &block) { jobs << { id: 2, wrong: 1 } and block.call }]
    expect { recorder.perform_async([{ id: 3 }]) }.to raise_error(Seriatim::Invalid, /jobs\[1\]: unknown key :wrong/)
    expect(recorder.metrics[:length]).to eq(1)
  end

  it "checks again what they made of the jobs" do
    Seriatim.client_middlewares << lambda do |_, jobs, &block|
      jobs.last[:id] = nil
      block.call
    end
    expect { recorder.perform_async([{ id: 1 }, { id: 2 }]) }.to raise_error(Seriatim::Invalid, /jobs\[1\]: id/)
    expect(recorder.metrics[:length]).to eq(0)
  end
end
