# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/quiet_house"

# What programs that know gmq do, over HTTP alone, on a mount of each language.
House.consuming.slice("Rack", "WSGI", "nginx").each_key do |name|
  RSpec.describe "consumers as of gmq, #{name}", mount: name do
    let(:live) { QuietHouse.live }

    def mount = QuietHouse.mount(self.class.metadata.fetch(:mount))
    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # Queues of one shard, whose order is that of their pushes.
    def queue_of(suffix, **settings)
      live.use
      name = "gmq #{suffix} of #{self.class.metadata[:mount]}"
      queue = Module.new { extend Seriatim::Worker }
      { queue_name: name, shards_count: 1, **settings }.each { |field, value| queue.public_send(:"#{field}=", value) }
      queue.perform_async([{ id: "not due", payload: 0, delay: 3600 }])
      name
    end

    def consume(route, body) = site.ask("POST", "/api/v1/consume/#{route}", headers: { "Content-Type" => "application/json" }, body: JSON.generate(body))
    def push(queue, *jobs) = consume("push", { queue: queue, jobs: jobs.map { |job| { payload: 1, **job } } }).json
    def pop(*queues, **options) = consume("pop", { queues: queues, wait: 0, **options })
    def taken(*queues, **options) = pop(*queues, wait: 20, **options).json
    def ack(delivery) = consume("ack", { token: delivery["token"] }).status
    def record(queue, id) = site.get("#{Site.queue(queue)}/id?id=#{Site.encode(id)}").json

    # Pops until nothing is due, and acknowledges.
    def drain(*queues)
      ids = []
      while (answer = pop(*queues)).status == 200
        ids << answer.json["id"]
        expect(ack(answer.json)).to eq(200)
        yield ids if block_given?
      end
      expect(answer.status).to eq(204)
      ids
    end

    it "R-POP-13 take ids in the order of their pushes, then are told that nothing is due, after their wait" do
      queue = queue_of("order")
      push(queue, *(1..100).map { |number| { id: number } })
      expect(drain(queue)).to eq((1..100).map(&:to_s))
      begun = now
      expect(pop(queue, wait: 0.5).status).to eq(204)
      expect(now - begun).to be_between(0.5, 20)
    end

    it "R-POP-7 empty the first queue before the next, and see what comes to it meanwhile" do
      queues = %w[A B C].map { |letter| queue_of("priority #{letter}") }
      queues.each { |queue| push(queue, *(1..5).map { |number| { id: "#{queue[/[ABC]/]}#{number}" } }) }
      ids = drain(*queues) { |so_far| push(queues[0], { id: "A6" }) if so_far.last == "B2" }
      expect(ids).to eq(%w[A1 A2 A3 A4 A5 B1 B2 A6 B3 B4 B5 C1 C2 C3 C4 C5])
    end

    it "R-DELIVER-1 get nothing before its delay" do
      queue = queue_of("delay")
      begun = now
      push(queue, { id: "late", deliver_in: 4 }, { id: "not before", delay: 4 })
      expect(pop(queue).status).to eq(204)
      expect(Array.new(2) { taken(queue).tap { |delivery| ack(delivery) }["id"] }).to contain_exactly("late", "not before")
      expect(now - begun).to be >= 4
    end

    it "R-POP-2, R-POP-3 get again what was not acknowledged in time, counted, and a late or foreign report changes nothing" do
      queue = queue_of("again")
      push(queue, { id: "7", payload: "body" })
      first = taken(queue, ttr: 0.3)
      second = taken(queue, ttr: 60)
      expect([first, second].map { |delivery| delivery["deliveries"] }).to eq([1, 2])
      expect([ack(first), ack(second), ack(second)]).to eq([409, 200, 409])
      push(queue, { id: "7", payload: "new", deliver_in: 600 })
      expect([pop(queue).status, record(queue, "7").dig("scheduled", "count")]).to eq([204, 1])
    end

    it "R-POP-5 keep what they extend, and lose at the pop what has a time to run of 0" do
      queue = queue_of("extend")
      push(queue, { id: "kept" })
      kept = taken(queue, ttr: 4)
      expect(consume("extend", { token: kept["token"], seconds: 600 }).status).to eq(200)
      expect(pop(queue, wait: 4.5).status).to eq(204)
      expect(ack(kept)).to eq(200)
      push(queue, { id: "once" })
      expect(taken(queue, ttr: 0)["id"]).to eq("once")
      expect(pop(queue).status).to eq(204)
    end

    it "R-WAITING-9 are refused a second job of an id that lives: one of fifty at once succeeds" do
      queue = queue_of("unique")
      job = { id: "one", on_waiting: "unique" }
      answers = Array.new(50) { Thread.new { push(queue, job) } }.map(&:value)
      expect(answers.map { |answer| [answer["added"], answer["refused"]] }.tally).to eq([1, []] => 1, [0, [0]] => 49)
      delivery = taken(queue)
      expect(push(queue, job)["refused"]).to eq([0])
      expect(ack(delivery)).to eq(200)
      expect(push(queue, job)["added"]).to eq(1)
    end

    it "R-POP-4 find in the morgue what used up its deliveries, and run it again from there" do
      queue = queue_of("dead", max_retry_count: 2, history_per_id: 20)
      push(queue, { id: "d", payload: "body" })
      3.times { |count| expect(taken(queue, ttr: 0.1)["deliveries"]).to eq(count + 1) }
      live.until_true("in the morgue") { pop(queue).status == 204 && record(queue, "d")["dead"] }
      page = record(queue, "d")
      expect(page["history"].map { |entry| entry["event"] }).to include("pushed", "popped", "failed", "buried")
      expect(site.post(Site.worker(queue, "morgue_queue_up"), { ids: ["d"] }).status).to eq(200)
      again = taken(queue)
      expect([again["payloads"], ack(again)]).to eq([["body"], 200])
    end

    it "R-HTTP-6 see the counts of each shard, what is popped, and when the next is due" do
      queue = queue_of("monitor")
      push(queue, { id: "ready" }, { id: "popped" }, { id: "scheduled", deliver_in: 600 })
      taken(queue)
      shard = site.get(Site.queue(queue)).json["shards"].first
      expect(shard.slice("busy", "scheduled", "delayed", "length")).to eq("busy" => 1, "scheduled" => 1, "delayed" => 1, "length" => 2)
      expect(shard["next_due"]).to be_a(Numeric)
    end
  end
end
