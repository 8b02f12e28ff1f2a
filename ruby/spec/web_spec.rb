# frozen_string_literal: true

require_relative "spec_helper"
require "socket"
require "zlib"

begin
  require_relative "support/web_client"
rescue LoadError
  return # no rack: apt-get install ruby-rails
end

RSpec.describe "Seriatim::Web", :core do
  include WebClient

  let(:queue) { worker("Web", shards_count: 2, max_retry_count: 0) { |payloads, _| raise "broken SECRET-4711" if payloads.key?("dead") } }

  before { @app = dashboard }

  # Two that wait, one that waits for later, one dead.
  def fill
    queue.perform_async([{ id: "dead", payload: { card: "SECRET-1" } }])
    server = serve(queue)
    runs(queue)
    eventually { queue.metrics[:morgue_length] == 1 }
    server.stop(1)
    queue.perform_async([{ id: "a", payload: "SECRET-2" }, { id: "b", payload: 2 }, { id: "later", payload: "SECRET-3", delay: 600 }])
  end

  def figures = queue.metrics.slice(:length, :fresh, :retries, :morgue_length, :parked, :paused)

  # What a route may need beside its path.
  def query = "?id=a&q=a&queue=Web&span=1h&part=dead&by=id"

  def safe(answer)
    fields = answer.headers.transform_keys(&:downcase)
    expect(fields["content-security-policy"]).to eq(
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; " \
      "form-action 'self'; frame-ancestors 'none'"
    )
    expect(fields).to include("x-content-type-options" => "nosniff", "x-frame-options" => "DENY", "referrer-policy" => "no-referrer")
    answer
  end

  describe "its answers" do
    it "R-WEB-1: serves the page, its files and itself under any prefix, and every unknown path as the page" do
      expect(safe(get("/jobs")).headers["location"]).to eq("/jobs/")
      ["/jobs/", "/jobs/queues/Web", "/jobs/any/thing"].each do |path|
        page = safe(get(path))
        expect([page.status, page.headers["content-type"]]).to eq([200, "text/html; charset=utf-8"])
        files = page.body.scan(/(?:src|href)="([^"]+)"/).flatten.grep_v(/\Adata:|\Ahttp/)
        expect(files).not_to be_empty
        files.each do |file|
          answer = safe(get(URI.join("http://h#{path}", file).path))
          expect([file, answer.status, answer.headers["cache-control"]]).to eq([file, 200, "public, max-age=86400"])
        end
      end
      expect(get("/", app: dashboard("")).status).to eq(200)
      expect(get("/jobs/api/nothing").then { |a| [a.status, a.json] }).to eq([404, { "error" => "not found" }])
    end

    it "R-WEB-2: calls a queue by its worker's name, and knows it by either" do
      named = Module.new
      stub_const("WQ", named)
      named.extend(Seriatim::Worker)
      named.queue_name = "other queue"
      named.perform_async([{ id: 1 }])
      expect(get("/jobs/api/v1/stats").json["by_worker"].keys).to eq(["WQ"])
      %w[WQ other%20queue].each { |name| expect(get("/jobs/api/web/#{name}/range_by_id").json.map { |record| record["id"] }).to eq(["1"]) }
      expect(post("/jobs/api/web/WQ/delete", { ids: ["1"] }).json).to eq("count" => 1)
      expect(get("/jobs/api/web/QW/range_by_id").status).to eq(404)
    ensure
      Seriatim::Worker.all.delete(named)
    end

    it "R-WEB-3: answers with the figures" do
      fill
      stats = get("/jobs/api/v1/stats").json
      expect(stats["total"]).to include("length" => 3, "morgue_length" => 1, "lag" => a_value >= 0)
      expect(stats["by_worker"].keys).to eq(["Web"])
      expect(stats["by_worker"]["Web"].keys).to contain_exactly("length", "morgue_length", "lag")
      board = get("/jobs/api/web/dashboard").json
      expect(board["queues"].first).to include("name" => "Web", "enqueued" => 3, "fresh" => 3, "retries" => 0, "dead" => 1, "busy" => 0,
                                               "processed" => 0, "failed" => 1, "lag" => a_value >= 0)
      expect(board["redis_info"].keys).to include("url", "version", "uptime_in_days", "connected_clients", "used_memory_human",
                                                  "used_memory_peak_human")
      expect(board).to include("title" => "Seriatim", "read_only" => false, "role" => "admin")
    end

    it "R-WEB-4: lists records by each index, up and down" do
      fill
      ids = ->(path) { get("/jobs/api/web/Web/#{path}").json.map { |record| record["id"] } }
      expect(ids["range_by_id?min=%5Ba&max=(z"]).to eq(%w[a b later])
      expect(ids["rev_range_by_id?min=-&max=%2B"]).to eq(%w[later b a])
      expect(ids["range_by_perform_in"].last).to eq("later")
      expect(ids["rev_range_by_perform_in"].first).to eq("later")
      expect(ids["range_by_retry_count?min=-1&max=-1"]).to match_array(%w[a b later])
      expect(ids["rev_range_by_retry_count?min=0"]).to eq([])
      %w[morgue_range_by_id morgue_rev_range_by_id morgue_range_by_updated_at morgue_rev_range_by_updated_at].each do |name|
        expect(ids[name]).to eq(["dead"])
      end
      expect(ids["processing_data"]).to eq([])
      record = get("/jobs/api/web/Web/range_by_id").json.first
      expect(record).to include("id" => "a", "retry_count" => -1, "payloads" => [['"SECRET-2"', a_value > 0]])
      expect(get("/jobs/api/web/Web/morgue_range_by_id").json.first).to include("error" => "broken SECRET-4711")
    end

    it "R-WEB-5: acts, and answers with the outcome" do
      fill
      expect(post("/jobs/api/web/Web/morgue_queue_up", { ids: %w[dead none] }).json).to eq("count" => 1)
      expect(post("/jobs/api/web/Web/park", { ids: ["a"] }).json).to eq("count" => 1)
      expect(figures).to include(morgue_length: 0, parked: 1)
      expect(post("/jobs/api/web/Web/unpark", { ids: ["a"] }).json).to eq("count" => 1)
      expect(post("/jobs/api/web/Web/pause").json).to eq("count" => 2)
      expect(post("/jobs/api/web/Web/resume").json).to eq("count" => 2)
      expect(post("/jobs/api/web/Web/perform_all_jobs_now").status).to eq(200)
      expect(post("/jobs/api/web/Web/delete", { ids: ["b"] }).json).to eq("count" => 1)
      expect(queue.queries.range_by_id("-", "+").map { |r| r[:id] }).to match_array(%w[a dead later])
    end

    it "answers every route that reads, without changing anything" do
      fill
      before = figures
      read = routes.reject(&:mutates)
      expect(read.size).to be >= 13
      read.each do |route|
        answer = safe(get(route.path("Web") + query))
        expect([route.to_s, answer.status]).to eq([route.to_s, 200])
        expect(answer.headers["cache-control"]).to eq("no-store")
        head = safe(ask("HEAD", route.path("Web") + query))
        expect([route.to_s, head.status, head.body]).to eq([route.to_s, 200, ""])
      end
      expect(figures).to eq(before)
    end

    it "R-WEB-9: refuses unknown queues, invalid bounds and long bodies" do
      fill
      expect(get("/jobs/api/web/None/range_by_id").status).to eq(404)
      expect(post("/jobs/api/web/None/pause").status).to eq(404)
      bad = get("/jobs/api/web/Web/range_by_perform_in?min=x")
      expect([bad.status, bad.json["error"]]).to match([400, /min/])
      expect(post("/jobs/api/web/Web/delete", "{\"ids\":[\"#{"x" * 1_100_000}\"]}").status).to eq(413)
      expect(post("/jobs/api/web/Web/delete", "nonsense").status).to eq(400)
      expect(ask("DELETE", "/jobs/api/web/Web/delete").status).to eq(405)
    end

    it "R-WEB-10: shows bytes that are no UTF-8, and takes them back" do
      bytes = worker("Bytes", codec: :raw)
      bytes.perform_async([{ id: "\xFF\x00".b, payload: "\xFE\x80".b }])
      record = get("/jobs/api/web/Bytes/range_by_id").json.first
      expect(record["id"]).to eq("base64" => ["\xFF\x00".b].pack("m0"))
      expect(record["payloads"].first.first).to eq("base64" => ["\xFE\x80".b].pack("m0"))
      expect(post("/jobs/api/web/Bytes/delete", { ids: [record["id"]] }).json).to eq("count" => 1)
    end

    it "finds queues of any name" do
      odd = worker("a/b c%2F\u00e9:{x}")
      odd.perform_async([{ id: 1 }])
      path = "/jobs/api/web/#{odd.queue_name.bytes.map { |b| format("%%%02X", b) }.join}/range_by_id"
      expect(get(path).json.size).to eq(1)
    end

    it "answers many threads, each its own" do
      queues = Array.new(4) { |i| worker("T#{i}").tap { |w| w.perform_async([{ id: "of-#{i}" }]) } }
      ids = lambda do |queue|
        eventually do # on a busy machine a reader may wait too long for its turn (503)
          answer = get("/jobs/api/web/#{queue.queue_name}/range_by_id")
          answer.json.map { |record| record["id"] } unless answer.status == 503
        end
      end
      answers = Array.new(8) { |t| Thread.new { Array.new(15) { ids.call(queues[t % 4]) }.uniq } }
      expect(answers.map(&:value)).to eq(Array.new(8) { |t| [["of-#{t % 4}"]] })
    end
  end

  describe "access" do
    it "D2 refuses each route by role, and what it refuses changes nothing" do
      fill
      before = figures
      routes.each do |route|
        [[nil, 0], [:viewer, 1], ["operator", 2]].each do |word, number|
          next if number >= route.role

          app = dashboard(role: ->(_env) { word })
          answer = safe(route.mutates ? post(route.path("Web"), app: app) : get(route.path("Web"), app: app))
          expect([route.to_s, word, answer.status]).to eq([route.to_s, word, word ? 403 : 401])
        end
      end
      expect(figures).to eq(before)
      expect(get("/jobs/", app: dashboard(role: ->(_) {})).status).to eq(401)
      expect(post("/jobs/api/web/Web/pause", app: dashboard(role: ->(env) { env.fetch("HTTP_X_ROLE") }), HTTP_X_ROLE: "operator").status).to eq(200)
    end

    it "D2 asks for the token, and takes no other" do
      fill
      app = dashboard(token: "right")
      routes.reject { |route| route.role.zero? }.each do |route|
        [{}, { HTTP_AUTHORIZATION: "Bearer wrong" }, { HTTP_AUTHORIZATION: "Bearer right " }, { HTTP_AUTHORIZATION: "Basic right" }].each do |field|
          answer = route.mutates ? post(route.path("Web"), app: app, **field) : get(route.path("Web"), app: app, **field)
          expect([route.to_s, field, answer.status]).to eq([route.to_s, field, 401])
        end
      end
      expect(get("/jobs/api/v1/stats", app: app, HTTP_AUTHORIZATION: "Bearer right").status).to eq(200)
    end

    it "D2 changes nothing where it is read-only" do
      fill
      before = figures
      routes.select(&:mutates).each { |route| expect([route.to_s, post(route.path("Web"), app: dashboard(read_only: true)).status]).to eq([route.to_s, 403]) }
      expect(figures).to eq(before)
      expect(get("/jobs/api/web/dashboard", app: dashboard(read_only: true)).json["read_only"]).to be(true)
    end

    it "D5 takes a change only from its own pages" do
      fill
      before = figures
      bad = [{ HTTP_SEC_FETCH_SITE: "cross-site" }, { HTTP_SEC_FETCH_SITE: "same-site" }, { HTTP_SEC_FETCH_SITE: "none" },
             { HTTP_SEC_FETCH_SITE: nil }, { HTTP_SEC_FETCH_SITE: nil, HTTP_ORIGIN: "http://evil.example" },
             { HTTP_SEC_FETCH_SITE: nil, HTTP_ORIGIN: "null" }, { HTTP_SEC_FETCH_SITE: "cross-site", HTTP_ORIGIN: "http://example.org" },
             { CONTENT_TYPE: "application/x-www-form-urlencoded", HTTP_SEC_FETCH_SITE: "cross-site" }]
      routes.select(&:mutates).each do |route|
        bad.each { |fields| expect([route.to_s, fields, post(route.path("Web"), **fields).status]).to eq([route.to_s, fields, 403]) }
        ["text/plain", nil].each { |type| expect([route.to_s, post(route.path("Web"), CONTENT_TYPE: type).status]).to eq([route.to_s, 415]) }
        expect([route.to_s, get(route.path("Web")).status]).to eq([route.to_s, 405])
      end
      expect(figures).to eq(before)
      same = { HTTP_SEC_FETCH_SITE: nil, HTTP_HOST: "jobs.example:81", HTTP_ORIGIN: "http://jobs.example:81" }
      expect(post("/jobs/api/web/Web/pause", **same).status).to eq(200)
      expect(post("/jobs/api/web/Web/pause", **same, "rack.url_scheme": "https", HTTPS: "on").status).to eq(403)
    end

    it "D6 answers only the hosts that it was given" do
      app = dashboard(hosts: ["localhost", "jobs.example:81"])
      answers = ["localhost", "localhost:9292", "jobs.example:81", "jobs.example", "evil.example", "localhost.evil.example"].map do |host|
        get("/jobs/api/v1/stats", app: app, HTTP_HOST: host).status
      end
      expect(answers).to eq([200, 200, 200, 403, 403, 403])
    end
  end

  describe "the audit" do
    hostile = "a\nINFO forged\e[2J"

    it "D13 gets each change and each refusal, with the request that asked for it" do
      fill
      told = []
      app = dashboard(role: ->(env) { env["HTTP_X_ROLE"] }, audit: ->(env, change) { told << [env["HTTP_X_USER"], change] })
      queue.perform_async([{ id: hostile }])
      post("/jobs/api/web/Web/delete", { ids: ["b", "none", hostile, { base64: "/w==" }] }, app: app, HTTP_X_ROLE: "admin", HTTP_X_USER: "ada")
      post("/jobs/api/web/Web/delete", { ids: ["a"] }, app: app, HTTP_X_ROLE: "viewer", HTTP_X_USER: "bob")
      post("/jobs/api/web/Web/pause", app: app, HTTP_X_ROLE: "operator", HTTP_SEC_FETCH_SITE: "cross-site")
      post("/jobs/api/v1/nodes/gone/quiet", app: app, HTTP_X_ROLE: "operator")
      post("/jobs/api/web/Web/pause", app: app)
      get("/jobs/api/v1/stats", app: app, HTTP_X_ROLE: "viewer")
      expect(told).to eq([
        ["ada", { action: "delete", role: "admin", queue: "Web", ids: ["b", "none", hostile, "\xFF".b], count: 2, status: 200 }],
        ["bob", { action: "delete", role: "viewer", queue: "Web", status: 403, error: "this needs the role admin" }],
        [nil, { action: "pause", role: "operator", queue: "Web", status: 403, error: "the request comes from another site" }],
        [nil, { action: "quiet_node", role: "operator", node: "gone", status: 404, error: "no such node is alive" }],
        [nil, { action: "pause", role: "nobody", queue: "Web", status: 401, error: "you are not signed in" }]
      ])
    end

    it "D13 is one line of the log, which no id can break, where the host gives none" do
      queue.perform_async([{ id: hostile }])
      post("/jobs/api/web/Web/delete", { ids: [hostile] })
      lines = log.lines.grep(/ web /)
      expect(lines).to match([/\AINFO \S+ pid=\d+ tid=\w+ web delete by admin: queue "Web", id "a\\u000aINFO forged\\u001b\[2J": count 1\n\z/])
    end

    it "D13 may raise, and the answer is the same" do
      fill
      [->(*) { raise "boom" }, ->(*) { throw :away }].each do |hook|
        answer = safe(post("/jobs/api/web/Web/park", { ids: ["a"] }, app: dashboard(audit: hook)))
        expect([answer.status, answer.json.keys]).to eq([200, ["count"]])
      end
      expect(queue.metrics[:parked]).to eq(1)
      expect(log).to match(/ERROR .*audit raised RuntimeError: boom .* at: park by admin: queue "Web", id "a": count 1$/)
    end

    it "D13 gets a change whose client has left" do
      fill
      told = Thread::Queue.new
      app = dashboard(audit: ->(_, change) { told << change })
      get("/jobs/api/v1/stats", app: app)
      Process.kill(:STOP, REDIS.pid)
      asking = Thread.new { post("/jobs/api/web/Web/pause", app: app) }
      eventually { asking.status == "sleep" && asking.backtrace&.any? { |line| line.include?("connection.rb") } }
      asking.kill.join
      expect(told.pop(true)).to eq(action: "pause", role: "admin", queue: "Web")
    ensure
      Process.kill(:CONT, REDIS.pid)
    end
  end

  describe "hostile requests and failures" do
    it "D4 repeats nothing of a request" do
      mark = "xss\"'><script>alert(1)</script>"
      coded = URI.encode_www_form_component(mark)
      app = Rack::URLMap.new("/jobs" => Seriatim::Web.new)
      answers = ["/", "/#{coded}", "/api/#{coded}", "/api/web/#{coded}/range_by_id", "/api/v1/stats?#{coded}=#{coded}",
                 "/assets/#{coded}/#{coded}"].map do |path|
        get("/jobs#{path}", app: app, HTTP_HOST: mark, HTTP_REFERER: mark, HTTP_ORIGIN: mark, HTTP_X_FORWARDED_HOST: mark)
      end
      bare = Seriatim::Web.new
      ["//evil.example", "/a\r\nX-Evil: 1", mark].each do |prefix|
        status, headers, body = bare.call(Rack::MockRequest.env_for("/").merge("SCRIPT_NAME" => prefix, "PATH_INFO" => ""))
        expect([prefix, status]).to eq([prefix, 404])
        answers << WebClient::Answer.new(status, headers, body.join)
      end
      answers.each { |answer| expect("#{safe(answer).headers} #{answer.body}").not_to match(/xss|alert\(1\)|evil/i) }
    end

    it "D8 hands ids and bounds over as they are" do
      evil = "\r\n*1\r\n$8\r\nFLUSHALL\r\n"
      queue.perform_async([{ id: evil }, { id: "a" }])
      expect(post("/jobs/api/web/Web/park", { ids: [evil, "+", "-", "(a", "[a"] }).json).to eq("count" => 1)
      [evil, "+", "-", "(", "[", "[a", "(a", "\e[31m", "\u2028"].each do |bound|
        %w[range_by_id rev_range_by_id range_by_perform_in morgue_range_by_id].each do |name|
          answer = get("/jobs/api/web/Web/#{name}?min=#{URI.encode_www_form_component(bound)}")
          expect([200, 400]).to include(answer.status)
        end
      end
      expect(post("/jobs/api/web/Web/unpark", { ids: [evil] }).json).to eq("count" => 1)
      expect(get("/jobs/api/web/Web/range_by_id?min=%5B%0D&max=(%0E").json.map { |r| r["id"] }).to eq([evil])
      expect(queue.metrics[:length]).to eq(2)
    end

    it "D10 shows of payloads, errors and contexts what the redaction lets through, on every route" do
      fill
      seen = Thread::Queue.new
      app = dashboard(redact: ->(name, id, text) { seen << [name, id] && text.gsub(/SECRET-\d+/, "*") })
      routes.reject(&:mutates).each do |route|
        expect([route.to_s, get(route.path("Web") + query, app: app).body]).not_to include(/SECRET/)
      end
      expect(get("/jobs/api/web/Web/range_by_id", app: app).body).to include('\"*\"')
      expect(Array.new(seen.size) { seen.pop }).to include(%w[Web a], %w[Web dead])
    end

    it "D10 shows nothing when the redaction fails" do
      fill
      [->(*) { raise "boom" }, ->(*) {}, ->(*) { throw :away }].each do |hook|
        answer = safe(get("/jobs/api/web/Web/range_by_id", app: dashboard(redact: hook)))
        expect([answer.status, answer.json]).to eq([500, { "error" => "internal error" }])
      end
      expect(log).to include("boom")
      expect(get("/jobs/api/web/Web/range_by_id").status).to eq(200)
    end

    describe "with stored errors that load_error reads" do
      before do
        Seriatim.dump_error = ->(text) { Zlib.deflate(text) }
        Seriatim.load_error = ->(stored) { Zlib.inflate(stored.b).force_encoding("UTF-8") }
        fill
      end

      def errors(app = @app) = get("/jobs/api/v1/queues/Web/errors?part=dead", app: app).json

      it "R-WEB-21: shows and groups their texts, and changes the ids of one group" do
        expect(get("/jobs/api/v1/queues/Web/records?part=dead").json["records"].first["error"]).to start_with("broken SECRET-4711")
        expect(get("/jobs/api/v1/queues/Web/id?id=dead").json["dead"]["error"]).to start_with("broken SECRET-4711")
        expect(errors["groups"]).to match([hash_including("count" => 1, "error" => "broken SECRET-4711", "ids" => ["dead"])])
        hidden = dashboard(redact: ->(_, _, text) { text.sub("SECRET", "*") })
        expect(errors(hidden)["groups"].first["error"]).to eq("broken *-4711")
        path = "/jobs/api/v1/queues/Web/errors/#{errors["groups"].first["fingerprint"]}/delete"
        slices = [post(path).json]
        slices << post(path, { cursor: slices.last["cursor"] }).json while slices.last["more"] # on a slow machine
        expect(slices.sum { |slice| slice["count"] }).to eq(1)
        expect(queue.metrics[:morgue_length]).to eq(0)
      end

      it "R-WEB-21: says why load_error cannot read them, and shows what is text as it is stored" do
        [[->(_) { raise "cannot load" }, "load_error raised RuntimeError: cannot load"],
         [->(_) { 5 }, "load_error raised NoMethodError"], [->(_) { throw :away }, "load_error raised UncaughtThrowError"]].each do |load, reason|
          Seriatim.load_error = load
          expect(errors["groups"].first["error"]).to start_with("(#{reason}").and end_with("; the stored error is no text)")
          expect(safe(get("/jobs/api/v1/queues/Web/records?part=dead")).json["records"].first["error"]).to start_with("(#{reason}")
        end
        Seriatim.dump_error = ->(text) { text }
        queue.actions.morgue_delete(["dead"])
        fill
        expect(get("/jobs/api/v1/queues/Web/id?id=dead").json["dead"]["error"])
          .to match(/\A\(load_error raised UncaughtThrowError: .*; the error is shown as it is stored\)\nbroken SECRET/)
      end

      it "R-WEB-21: ends a request whose load_error ends more than itself" do
        Seriatim.load_error = ->(_) { raise Interrupt }
        expect { errors }.to raise_error(Interrupt)
        Seriatim.load_error = ->(stored) { Zlib.inflate(stored.b) }
        expect(errors["groups"].size).to eq(1)
      end
    end

    it "says 500 and no more when the role cannot be told, and lets nobody in" do
      [->(_) { raise "secret" }, ->(_) { "root" }, ->(_) { 1 }, ->(_) { false }].each do |hook|
        answer = safe(get("/jobs/api/v1/stats", app: dashboard(role: hook)))
        expect([answer.status, answer.body]).to eq([500, '{"error":"internal error"}'])
      end
      refused = ['"root" (String)', "1 (Integer)", "false (FalseClass)"]
      expect(log).to include("secret", *refused.map { |given| "role must be viewer, operator, admin, consumer or nil, not #{given}" })
    end

    it "F15 is a 503 without Redis, serves the page, and goes on when it is back" do
      redis = RedisServer.new
      Seriatim.redis = redis.url
      expect(get("/jobs/api/v1/stats").status).to eq(200)
      redis.stop
      answer = safe(get("/jobs/api/v1/stats"))
      expect([answer.status, answer.json["error"]]).to match([503, /Redis/])
      expect(get("/jobs/").status).to eq(200)
      redis.start
      eventually { get("/jobs/api/v1/stats").status == 200 }
    ensure
      redis.remove
    end

    it "is a 503 while Redis does not answer" do
      Process.kill(:STOP, REDIS.pid)
      answer = safe(get("/jobs/api/v1/stats"))
      expect([answer.status, answer.json["error"]]).to match([503, /timed out/])
    ensure
      Process.kill(:CONT, REDIS.pid)
    end

    it "checks its settings" do
      web = Seriatim::Web.new
      { title: 1, role: 1, redact: "x", audit: "x", hosts: "localhost", token: "", read_only: nil, consume: "false" }.each do |name, value|
        expect { web.public_send(:"#{name}=", value) }.to raise_error(Seriatim::Invalid, /#{name}/)
      end
      web.token = "x" * 1024
      expect { web.token = "x" * 1025 }.to raise_error(Seriatim::Invalid, /token must be a text of 1 to 1024 bytes/)
      expect { Seriatim::Web.new(nothing: 1) }.to raise_error(Seriatim::Invalid, /title, read_only, role/)
    end
  end

  describe "configure" do
    after { Seriatim::Web.configure { |web| [:title=, :token=].zip(["Seriatim", nil]) { |name, value| web.public_send(name, value) } } }

    it "is for Seriatim::Web itself, and new ones begin with it" do
      Seriatim::Web.configure do |web|
        web.title = "Jobs of ours"
        web.token = "right"
      end
      app = Rack::Lint.new(Seriatim::Web)
      expect(get("/api/web/dashboard", app: app, HTTP_AUTHORIZATION: "Bearer right").json["title"]).to eq("Jobs of ours")
      expect(get("/api/web/dashboard", app: Seriatim::Web.new(title: "X")).status).to eq(401)
      expect(get("/api/web/dashboard", app: Seriatim::Web.new(token: nil)).json["title"]).to eq("Jobs of ours")
    end
  end

  describe "health" do
    it "answers Prometheus, and whether this process and Redis work" do
      fill
      metrics = get("/jobs/metrics")
      expect(metrics.headers["content-type"]).to start_with("text/plain")
      expect(metrics.body).to match(/^seriatim_ready\{queue="Web"\} 2$/)
      expect(%w[livez readyz].map { |name| get("/jobs/#{name}").status }).to eq([200, 200])
      server = serve(queue)
      expect(get("/jobs/livez", app: dashboard(token: "t")).status).to eq(200)
      server.instance_variable_set(:@failure, RuntimeError.new("gone"))
      expect(get("/jobs/livez").status).to eq(503)
    end

    it "answers the probes without asking for a role" do
      app = dashboard(role: ->(_) { raise "the database is away" })
      expect(%w[livez readyz stats].map { |name| get("/jobs/#{name}", app: app).status }).to eq([200, 200, 500])
    end

    it "tells a change that gets no connection that the dashboard is busy, and that nothing was done" do
      Seriatim.pool_timeout = 0.1
      fill
      pool = Seriatim::Pool.web(:change)
      answer = pool.with { pool.with { post("/jobs/api/web/Web/pause") } }
      expect([answer.status, answer.json]).to eq([503, { "done" => 0, "error" => "the dashboard is busy; nothing was changed", "unknown" => false }])
      pool = Seriatim::Pool.web(:read)
      expect(pool.with { pool.with { get("/jobs/api/v1/stats") } }.json).to eq("error" => "the dashboard is busy")
      expect(post("/jobs/api/web/Web/pause").status).to eq(200)
    end

    it "answers /livez while all connections wait for a Redis that hangs" do
      Process.kill(:STOP, REDIS.pid)
      asking = Array.new(3) { Thread.new { get("/jobs/api/v1/stats").status } }
      pool = Seriatim::Pool.web(:read)
      eventually { pool.instance_variable_get(:@made) == 2 && pool.instance_variable_get(:@idle).empty? }
      expect(get("/jobs/livez").status).to eq(200)
      expect(asking.map(&:alive?)).to eq([true] * 3)
      Process.kill(:CONT, REDIS.pid)
      asking.each(&:join)
    ensure
      Process.kill(:CONT, REDIS.pid)
    end
  end
end
