# frozen_string_literal: true

require_relative "spec_helper"
require "socket"

begin
  require_relative "support/web_client"
rescue LoadError
  return # no rack: apt-get install ruby-rails
end

RSpec.describe "Consuming through Seriatim::Web", :core do
  include WebClient

  let(:queue) { worker("Pulled", shards_count: 2) }

  before do
    @app = dashboard(consume: true, role: ->(_) { "consumer" })
    queue.perform_async([{ id: "later", payload: 0, delay: 600 }])
  end

  def consume(name, body, **env) = post("/jobs/api/v1/consume/#{name}", body, HTTP_SEC_FETCH_SITE: nil, **env)

  def pop(**options) = consume("pop", { queues: ["Pulled"], wait: 0, **options })

  it "R-HTTP-1: pushes, pops and reports results" do
    pushed = consume("push", { queue: "Pulled", jobs: [{ id: "a", payload: { x: 1 } }, { id: "a", payload: 2 }] })
    expect([pushed.status, pushed.json]).to eq([200, { "added" => 1, "folded" => 1, "refused" => [], "scheduled" => 0, "stale" => 0 }])
    delivery = pop.json
    expect(delivery).to include("id" => "a", "payloads" => [{ "x" => 1 }, 2], "deliveries" => 1, "queue" => "Pulled")
    empty = pop
    expect([empty.status, empty.body, empty.headers.transform_keys(&:downcase).keys & %w[content-length content-type]]).to eq([204, "", []])
    expect(consume("release", { token: delivery["token"] }).json).to eq("ok" => true)
    expect(consume("ack", { token: delivery["token"] }).status).to eq(409)
    expect(consume("ack", { token: pop.json["token"] }).status).to eq(200)
    expect(queue.metrics[:length]).to eq(1)
  end

  it "does not wait for actions that hold all connections of changes" do
    changes = Seriatim::Pool.web(:change)
    changes.with { changes.with { expect(pop.status).to eq(204) } }
  end

  it "R-HTTP-2: is off by default, and for consumers and admins" do
    @app = dashboard
    expect(pop.then { |answer| [answer.status, answer.json["error"]] }).to match([404, /consume: true/])
    @app = dashboard(consume: true, role: ->(_) { "operator" })
    expect(pop.status).to eq(403)
    @app = dashboard(consume: true, role: ->(_) { "consumer" })
    expect(get("/jobs/api/v1/stats").status).to eq(403)
    described = get("/jobs/api/v1/consume/openapi.json").json
    expect(described["openapi"]).to eq("3.1.0")
    answers = described["paths"].values.flat_map(&:values).map { |operation| operation["responses"] }
    expect(answers.map { |known| known.dig("500", "$ref") }.uniq).to eq(["#/components/responses/Failed"])
    expect(described.dig("components", "responses")).to include(*answers.flat_map(&:values).filter_map { |answer| answer["$ref"]&.split("/")&.last })
    expect { Seriatim::Web.new(polls: 0) }.to raise_error(Seriatim::Invalid, /polls/)
  end

  it "R-HTTP-7: lets a pop wait, and refuses more than `polls` at once" do
    @app = dashboard(consume: true, polls: 1)
    waiting = Thread.new { pop(wait: 30) }
    eventually { REDIS.call("CLIENT", "LIST").match?(/cmd=subscribe|sub=[1-9]/) }
    busy = pop(wait: 30)
    expect([busy.status, busy.headers.transform_keys(&:downcase)["retry-after"]]).to eq([503, "1"])
    expect(pop.status).to eq(204)
    queue.perform_async([{ id: "late", payload: 5 }])
    expect(waiting.value.json).to include("id" => "late", "payloads" => [5])
    expect(pop(wait: 0.1).status).to eq(204)
  end

  it "R-HTTP-4: claims nothing for a client that has left" do
    ours, theirs = UNIXSocket.pair
    waiting = Thread.new { consume("pop", { queues: ["Pulled"], wait: 30 }, "seriatim.socket": ours) }
    eventually { REDIS.call("CLIENT", "LIST").match?(/sub=[1-9]/) }
    theirs.close
    expect(waiting.value.status).to eq(503)
    queue.perform_async([{ id: "kept", payload: 6 }])
    expect(pop.json).to include("id" => "kept", "deliveries" => 1)
  ensure
    ours&.close
  end
end
