# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/quiet_house"

CHANGES = ROUTES.select { |route| route[:mutates] }

# What is refused, on each mount, by every route that changes anything, as the router lists them.
each_mount "refused" do
  let(:live) { QuietHouse.live }

  def mount = QuietHouse.mount(self.class.metadata.fetch(:mount))
  # Of a payload that is not there.
  def handle = [[1, 1e15, QuietHouse::NAME.size].pack("CGn") + QuietHouse::NAME + "none"].pack("m0").tr("+/", "-_").delete("=")
  def body = JSON.generate(ids: %w[later-001 gone-001])

  # Each of these requests to each route is answered so, and nothing changes.
  def refuse(status, on: site, method: "POST", routes: CHANGES, text: body, **headers)
    fields = { **Site::CHANGE, "Content-Type" => "application/json", **headers.transform_keys { |name| name.to_s.tr("_", "-") } }.compact
    before = live.digest
    answers = routes.map { |route| [path_of(route), on.ask(method, path_of(route), headers: fields, body: method == "GET" ? nil : text).status] }
    expect(answers).to eq(routes.map { |route| [path_of(route), status] })
    expect(live.digest).to eq(before)
  end

  it "D5 a GET, a HEAD and every other method" do
    refuse(405, method: "GET")
    refuse(405, method: "HEAD")
    %w[PUT PATCH DELETE].each { |method| refuse(405, method: method) }
  end

  it "D5 a page of another site" do
    %w[cross-site same-site none evil].each { |word| refuse(403, "Sec-Fetch-Site" => word) }
    ["https://evil.example", "null", "http://127.0.0.1.evil.example", site.origin.sub("http", "https"), "#{site.origin}.evil.example", "#{site.origin}0", nil].each do |origin|
      refuse(403, "Sec-Fetch-Site" => nil, "Origin" => origin)
    end
    refuse(403, "Sec-Fetch-Site" => "cross-site", "Origin" => site.origin)
  end

  it "D5 a body of a type that it does not read" do
    ["multipart/form-data", "text/plain", "application/jsonp", nil].each { |type| refuse(415, "Content-Type" => type) }
  end

  it "D5 a form of another site" do
    form = { "Content-Type" => "application/x-www-form-urlencoded", text: "ids[]=later-001&ids[]=gone-001" }
    %w[cross-site same-site none].each { |word| refuse(403, **form, "Sec-Fetch-Site" => word) }
    ["https://evil.example", "null", nil].each { |origin| refuse(403, **form, "Sec-Fetch-Site" => nil, "Origin" => origin) }
  end

  # As curl sends it.
  it "D5 not a form of its own, nor one with the token and no Origin" do
    form = { "Content-Type" => "application/x-www-form-urlencoded" }
    own = site.ask("POST", Site.worker(QuietHouse::NAME, "delete"), headers: { **form, "Origin" => site.origin }, body: "ids[]=none&ids%5B%5D=%FF")
    expect([own.status, own.json]).to eq([200, { "count" => 0 }])
    script = site(:token).ask("POST", Site.worker(QuietHouse::NAME, "delete"), headers: { **form, "Authorization" => "Bearer #{mount.token}" }, body: "ids[]=none")
    expect([script.status, script.json]).to eq([200, { "count" => 0 }])
    stranger = site(:token).ask("POST", Site.worker(QuietHouse::NAME, "delete"), headers: { **form, "Authorization" => "Bearer wrong" }, body: "ids[]=none")
    expect(stranger.status).to eq(401)
    nameless = site.ask("POST", Site.worker(QuietHouse::NAME, "delete"), headers: form, body: "ids[]=none")
    expect([nameless.status, nameless.json["error"]]).to match([403, /needs the header Origin/])
  end

  it "D2 requests without a role, or with a lesser one" do
    refuse(401, Cookie: "role=nobody")
    refuse(403, Cookie: "role=viewer")
    refuse(403, Cookie: "role=operator", routes: CHANGES.select { |route| route[:role] == 3 })
    expect(CHANGES.select { |route| route[:role] == 2 }).not_to be_empty
  end

  it "D2 requests without a role: a browser gets a page to sign in, others JSON" do
    ["/", "/queue?name=x", "/api/v1/stats"].each do |path|
      page = site.get(path, Accept: "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", Cookie: "role=nobody")
      expect([path, page.status, page["content-type"]]).to eq([path, 401, "text/html; charset=utf-8"])
      expect(page.body).to include("you are not signed in", '<a href="/">Sign in</a>')
      [nil, "*/*", "application/json"].each do |accept|
        answer = site.get(path, Accept: accept, Cookie: "role=nobody")
        expect([path, accept, answer.status, answer["content-type"], answer.json]).to eq([path, accept, 401, "application/json", { "error" => "you are not signed in" }])
      end
    end
    expect(site(:token).get("/", Accept: "text/html").body).to include("app/app.js")
  end

  it "D2 a missing or wrong token, and anything where it is read-only" do
    [nil, "Bearer", "Bearer wrong", "Bearer #{mount.token} ", "Bearer #{mount.token}x", "Basic #{mount.token}", mount.token].each do |words|
      next if words&.end_with?(" ")

      refuse(401, on: site(:token), Authorization: words)
    end
    refuse(403, on: site(:read_only))
    (ROUTES - CHANGES).each do |route|
      expect([route, site(:token).get(path_of(route)).status]).to eq([route, PROBES.include?(route[:pattern]) ? 200 : 401])
    end
  end

  it "D6 a foreign Host whose name resolves to this address" do
    refuse(403, Host: "evil.example")
    ["evil.example", "evil.example:#{site.port}", "127.0.0.1.evil.example", "localhost@evil.example"].each do |host|
      (ROUTES - CHANGES).reject { |route| PROBES.include?(route[:pattern]) }.each do |route|
        expect([host, path_of(route), site.get(path_of(route), Host: host).status]).to match([host, path_of(route), 400..403])
      end
    end
    expect(site.get("/api/v1/stats")["access-control-allow-origin"]).to be_nil
  end

  it "D5 but not requests of its own pages" do
    body = lambda do |route|
      case route[:pattern]
      when /all|pause|resume|errors/ then {}
      when /cancel/ then { handle: handle }
      when /reschedule/ then { handle: handle, at: Time.now.to_i + 1000 }
      when /drop_payload/ then { id: "none", key: "0" * 32 }
      when /reshard/ then { shards: 2 } # it has that many
      else { ids: ["none"] }
      end
    end
    answers = CHANGES.map { |route| [path_of(route), site.post(path_of(route), body[route]).status] }
    expect(answers).to eq(CHANGES.map { |route| [path_of(route), route[:pattern].include?(":node") ? 404 : 200] })
    before = live.digest
    expect(site.ask("POST", Site.worker(QuietHouse::NAME, "pause"), headers: { "Content-Type" => "application/json", "Origin" => site.origin }, body: "{}").json).to eq("count" => 2)
    expect(live.digest).not_to eq(before)
  end

  it "D7 paths out of the table of files" do
    version = site.get("/").body[%r{assets/([^/"]+)/}, 1]
    ["../../../../etc/passwd", "..%2f..%2fetc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..\\..\\etc\\passwd", "app/app.js%00.css", "/etc/passwd", "%c0%ae%c0%ae/etc/passwd", ".", ".."].each do |name|
      answer = site.get("/assets/#{version}/#{name}")
      expect([name, answer.body.include?("root:")]).to eq([name, false])
      expect([name, answer.status]).to match([name, 200..499])
      expect(answer.body).to include("<!doctype html>") if answer.status == 200
    end
  end

  it "D8 commands in texts, which stay texts" do
    before = live.digest
    evil = "x\r\n*1\r\n$8\r\nFLUSHALL\r\n"
    [evil, "+", "-", "(", "[", "\0", "\e[31m"].each do |text|
      word = Site.encode(text)
      worker = Site.worker(QuietHouse::NAME, "")
      paths = ["#{worker}range_by_id?min=#{word}", "#{worker}range_by_perform_in?max=#{word}", "#{Site.queue(QuietHouse::NAME, "records")}?cursor=#{word}",
               "#{Site.queue(QuietHouse::NAME, "records")}?by=id&prefix=#{word}&from=#{word}", "#{Site.queue(QuietHouse::NAME, "id")}?id=#{word}",
               "/api/v1/search?q=#{word}", "/api/v1/history?queue=#{word}", Site.queue(text), Site.worker(text, "range_by_id")]
      paths.each { |path| expect([path, site.get(path).status]).to match([path, (200..499)]) }
      expect(site.post("#{worker}delete", { ids: [text.delete("\0")] }).status).to eq(200) unless text == "\0"
    end
    expect(live.digest).to eq(before)
  end

  it "D9 bodies, pages and counts beyond their bounds" do
    refuse(413, text: "{\"ids\":[\"#{"x" * 1_100_000}\"]}", routes: CHANGES.first(2))
    refuse(400, text: JSON.generate(ids: Array.new(1001, &:to_s)), routes: CHANGES.select { |route| route[:pattern].end_with?("/delete") }.first(1))
    expect(site.get("#{Site.queue(QuietHouse::NAME, "records")}?limit=101").status).to eq(400)
    expect(site.get("/api/v1/running?limit=1001").status).to eq(400)
  end

  it "D10 D11 by an answer that shows, keeps and leads nowhere" do
    ["/", "/api/v1/stats", "/api/nothing", "/queue?name=x", Site.worker("none", "pause"), "/assets/x/y"].each do |path|
      answer = site.get(path)
      expect([path, answer["x-frame-options"], answer["x-content-type-options"], answer["referrer-policy"]]).to eq([path, "DENY", "nosniff", "no-referrer"])
      expect(answer["content-security-policy"]).to eq("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " \
                                                      "base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
      expect([path, answer["cache-control"]]).to eq([path, "no-store"])
      expect(answer["set-cookie"]).to be_nil
    end
    ["//evil.example", "/\\evil.example", "/%0d%0aSet-Cookie:a=b", "/?x=%0d%0aLocation:evil"].each do |path|
      answer = site.get(path)
      expect([path, answer["location"].to_s.include?("evil"), answer["set-cookie"]]).to eq([path, false, nil])
    end
  end
end
