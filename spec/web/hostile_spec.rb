# frozen_string_literal: true

require "nokogiri"
require "open3"
require_relative "spec_helper"

DECEIVING = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/
PLAIN = House::QUEUES.last # a queue whose texts are all harmless
PAGES = %w[enqueued dead parked running].freeze
OWNER = File.read(File.expand_path("../../core/src/model/stored.h", __dir__))[/SRT_STATE_OWNER (\d+)/, 1].to_i # its offset in a state
# Of all elements: [their names, their attributes' names]; and what leads elsewhere.
CENSUS = <<~JS
  (() => {
    const all = [...document.querySelectorAll("*")];
    const away = all.flatMap((e) => ["href", "src", "action", "formaction", "srcdoc", "data", "poster"].map((name) => e.getAttribute(name)))
      .filter((url) => url !== null && !new URL(url, document.baseURI).href.startsWith(location.origin + "/"));
    return [[...new Set(all.map((e) => e.localName))], [...new Set(all.flatMap((e) => e.getAttributeNames()))], away];
  })()
JS

# Stored once, for all mounts: each text is a queue with an id, payload, error and context of that text that is dead, waits, runs
# and is parked; and it is the name of the node that runs it.
module Prey
  module_function

  def stored
    return if @stored

    @stored = true
    live = House.live
    live.fill(PLAIN, later: 1, retrying: 1, dead: 1, running: 1, parked: 1)
    queues = Hostile::TEXTS.to_h { |text| [text, live[Hostile.queue(text)]] }
    queues.each { |text, queue| push(queue, text) }
    live.until_true("all dead, failed or running") { queues.each_value.all? { |queue| queue.metrics.values_at(:morgue_length, :retries, :busy) == [1, 1, 1] } }
    queues.each { |text, queue| queue.actions.park([id(text, "parked")]) }
    Hostile::ALL.each_with_index { |text, number| node(live.redis, Hostile.queue(text), "#{number} #{text}", text) }
  end

  def id(text, place) = "#{text}, #{place}".b

  def push(queue, text)
    word = text.equal?(Hostile::BYTES) ? "bytes" : text
    context = { word => word }
    queue.perform_async([{ id: text, payload: { fail: word, more: word }, context: context, retry_count: 2 },
                         { id: id(text, "parked"), payload: { fail: word }, context: context },
                         { id: id(text, "running"), payload: { sleep: 900, more: word }, context: context },
                         { id: id(text, "later"), payload: word, context: context, delay: 3600 }])
  end

  # One that is about to leave, so that nobody waits for it, and owns the shards of that queue: its name is a state's last field.
  def node(redis, queue, name, description)
    redis.call("ZADD", "seriatim:{/nodes}:alive", ((Time.now.to_f + 3600) * 1000).to_i, name)
    redis.call("HSET", "seriatim:{/nodes}:info", name, "q|#{description}")
    escaped = queue.b.gsub(/[^A-Za-z0-9_.:\x80-\xff-]/n) { |byte| format("%%%02X", byte.ord) }
    2.times { |shard| redis.call("SETRANGE", "seriatim:{#{escaped}/#{shard}}:state", OWNER, name.b.ljust(60, "\0")) }
  end
end

# Of each of these addresses, where one gets as by a link: [census, trap, the heading, the payloads and contexts].
WALK = <<~JS
  (async (pages) => {
    const seen = [];
    for (const [url, text] of pages) {
      history.pushState({ entry: url }, "", url); // without an entry it would be a link within the page, which draws nothing
      dispatchEvent(new PopStateEvent("popstate", { state: history.state }));
      for (const end = performance.now() + 20000; !document.querySelector("main h1") || document.querySelector(".skeleton");) {
        if (performance.now() > end) throw new Error(`no page at ${url}`);
        await new Promise((done) => setTimeout(done, 4));
      }
      // A page whose rows could not be read in time says so and reads them again.
      for (const end = performance.now() + 20000; !document.body.textContent.includes(text) && performance.now() < end;) {
        await new Promise((done) => setTimeout(done, 20));
      }
      seen.push([#{CENSUS}, sessionStorage.getItem("trap"), document.querySelector("h1").textContent,
        [...document.querySelectorAll(".payloads pre")].map((e) => e.textContent), document.body.textContent]);
    }
    return seen;
  })(arguments[0])
JS

# Texts of others, everywhere: nothing of them runs, becomes an element or asks anybody anything.
each_mount "hostile texts" do
  before(:all) { Prey.stored }

  # As the pages write it.
  def shown(text)
    return "base64:#{[text].pack("m0")}" if text.equal?(Hostile::BYTES)

    text.gsub(DECEIVING) { |c| "\\u{#{c.ord.to_s(16)}}" }
  end

  # What each page shows, a few pages at a time.
  # @param pages [Array<(String, Hash, String)>] page, parameters, and a text that it is going to show
  def walk(pages)
    pages.each_slice(4).flat_map { |some| browser.value(WALK, some.map { |page, parameters, text = ""| [site.page(page, **parameters), text] }) }
  end

  def wait_for_page = browser.waited("the page") { browser.there?("main h1") && !browser.there?(".skeleton") }

  # What harmless texts make.
  def harmless
    open("")
    wait_for_page
    counts = walk([["", {}], ["nodes", {}], ["running", {}], ["search", { q: "later-001", queue: PLAIN }], ["queue", { name: PLAIN }], ["id", { queue: PLAIN, id: "gone-001" }],
                   ["id", { queue: PLAIN, id: "later-001" }], *PAGES.map { |page| [page, { queue: PLAIN }] }]).map(&:first)
    # Which a page has or has not, by the length of its texts and what is there.
    [counts.flat_map(&:first).uniq | %w[ul li ol code strong], counts.flat_map { |count| count[1] }.uniq | %w[title disabled]]
  end

  def expect_harmless(what, census = browser.value(CENSUS), trap = browser.harm)
    elements, attributes, away = census
    expect([what, elements - @known[0], attributes - @known[1], away]).to eq([what, [], [], []])
    expect([what, Array(trap)]).to eq([what, []])
  end

  # The pages of a text's queue: the id's on each mount, each of the others on one of the four.
  def pages_of(text, number)
    queue = Hostile.queue(text)
    turn = Mounts::ALL.keys.index(self.class.metadata[:mount])
    others = [["queue", { name: queue }], *PAGES.map { |page| [page, { queue: queue }] }]
    [*others.each_with_index.filter_map { |page, place| page if (number + place) % Mounts::ALL.size == turn }, ["id", { queue: queue, id: text }]]
  end

  # As far as white space in it cannot differ.
  def beginning(text) = shown(text).split("\n").first

  def holds?(body, text) = body.include?(beginning(text))

  it "D3 D4 D12 stay texts on every page" do
    browser.visit("about:blank")
    browser.requested # of another example's page
    @known = harmless
    ["", "nodes", "running"].each do |page|
      open(page)
      wait_for_page
      expect_harmless(page)
    end
    %w[By\ queue By\ node].each { |label| browser.press(label) && expect_harmless(label) }
    owners = rows_of("/api/v1/running")["running"].map { |run| run["owner"] }
    expect(owners).to include(*Hostile::ALL.each_with_index.map { |text, number| "#{number} #{text}"[/\A[^\0]*/] })
    browser.waited("their nodes") { (texts = browser.texts("main h3 bdi")) && owners.uniq.all? { |owner| texts.include?(shown(owner)) } }
    pages = Hostile::TEXTS.each_with_index.flat_map { |text, number| pages_of(text, number).map { |page| [text, page] } }
    pages.zip(walk(pages.map { |text, page| [*page, beginning(text)] })) do |(text, (page, _)), (found, trap, heading, payloads, body)|
      expect_harmless([page, text], found, trap)
      expect([page, text, holds?(body, text)]).to eq([page, text, true])
      next unless page == "id"

      stored = rows_of("#{Site.queue(Hostile.queue(text), "id")}?id=#{Site.encode(text)}")["dead"]["payloads"][0]
      written = [payloads, stored.values_at(0, 2).map { |part| shown(part) }].map { |parts| parts.map { |part| part.gsub(/\s+/, "") } } # the page indents
      expect([heading, written[0]]).to eq([shown(text), written[1]])
    end
    Hostile::TEXTS.each_slice(8) { |text, *| open("dead", queue: Hostile.queue(text)) && wait_for_page && expect_harmless(text) }
    walk([["search", { q: Hostile::ALL.first, queue: Hostile::ALL.first }]]).each { |found, trap| expect_harmless("search", found, trap) }
    asked = browser.requested.grep_v(/\Adata:|\Achrome/)
    expect(asked.size).to be > 100
    expect(asked.reject { |url| url.start_with?("#{site.origin}/") }).to eq([])
  end

  # The page draws itself anew at any time, which removes what was injected: so one script injects and takes the census. What is still
  # under way when the example ends, the image for instance, would be charged to the next one: so it ends on a page of its own.
  it "D3 control: the trap sees a script that does run" do
    open("")
    wait_for_page
    injected = "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=alert(1)>')"
    expect(browser.value("(#{injected}, #{CENSUS})")[1]).to include("onerror")
    browser.waited("the violation") { browser.harm.any? { |line| line.start_with?("csp script-src-attr") } }
    browser.value("fetch('https://evil.example/').catch(() => 1)")
    browser.waited("the violation") { browser.harm.any? { |line| line.start_with?("csp connect-src") } }
  ensure
    open("")
    browser.value("sessionStorage.clear() ?? 1")
  end

  # ---- the same without a browser, read by a strict parser

  def page_of(body, depth) = Nokogiri::HTML5.parse(body).to_html.gsub("\"#{"../" * depth}assets/", "\"assets/")

  it "D4 leave no trace in any answer, wherever in a request they stand" do
    plain = page_of(site.get("/").body, 0)
    known = site.get("/").headers.keys | %w[location allow www-authenticate connection server date]
    Hostile::TEXTS.each do |text|
      word = Site.encode(text)
      raw = text.b.gsub(/[\x00-\x20\x7f-\xff#]/n) { |byte| format("%%%02X", byte.ord) }
      field = text.b.gsub(/[\x00-\x1f\x7f-\xff]/n, "")
      requests = [["/#{word}", {}], ["/x/#{raw}", {}], ["/queue?name=#{word}", {}], ["/dead?queue=#{raw}", {}], ["/?#{raw}", {}], ["/", { "Referer" => field }],
                  ["/", { "Host" => field }], ["/api/#{word}", {}], ["/api/web/#{word}/range_by_id", {}], ["/assets/#{word}/app/app.js%22#{word}", {}]]
      requests.each do |path, fields|
        answer = site.ask("GET", path, headers: fields)
        expect([path, answer.headers.keys - known - %w[transfer-encoding content-length]]).to eq([path, []])
        if answer["content-type"].to_s.start_with?("text/html") && answer.status == 200
          expect([path, page_of(answer.body, path[/\A[^?]*/].count("/") - 1)]).to eq([path, plain])
        elsif answer["content-type"] == "application/json"
          expect([path, answer["x-content-type-options"]]).to eq([path, "nosniff"])
        end
        expect([path, answer.body.b.include?(text.b)]).to eq([path, false]) if text.b.match?(/[<>"]/n) && !answer["content-type"].to_s.start_with?("application/json")
      end
    end
  end

  # What a shell passes to the command is what is shown, and nothing else runs. A control character acts on the terminal before a shell reads it.
  it "D3 are words of the command to copy, or there is no such command" do
    Hostile::TEXTS.each do |text|
      queue = Hostile.queue(text)
      cli = rows_of("#{Site.queue(queue, "id")}?id=#{Site.encode(text)}")["cli"]
      next expect([text, cli]).to eq([text, nil]) if text.equal?(Hostile::BYTES) || text.match?(/[[:cntrl:]\u2028-\u202e\ufeff]/)

      words = %w[sh bash].map { |shell| Open3.capture2e(shell, "-c", "seriatim() { printf '%s\\0' \"$@\"; }; #{cli}").first.force_encoding("UTF-8").split("\0") }
      expect(words).to eq([["explain", queue, text]] * 2)
    end
    text = Hostile::ALL.find { |candidate| candidate.include?("\e") }
    open("id", queue: Hostile.queue(text), id: text)
    see("Without a command to copy")
    expect(browser.there?(".command")).to be(false)
  end

  it "D3 come back from the API as they are, as JSON that no browser takes for a page" do
    Hostile::TEXTS.each do |text|
      bytes = text.equal?(Hostile::BYTES) ? { "base64" => [text].pack("m0") } : text
      answer = site.get("#{Site.queue(Hostile.queue(text), "id")}?id=#{Site.encode(text)}")
      expect([answer.status, answer["content-type"], answer["x-content-type-options"]]).to eq([200, "application/json", "nosniff"])
      record = answer.json["dead"]
      word = bytes.is_a?(Hash) ? "bytes" : text
      expect(record["id"]).to eq(bytes)
      expect(record["payloads"][0].values_at(0, 2).map { |part| JSON.parse(part) }).to eq([{ "fail" => word, "more" => word }, { word => word }])
      expect(record["error"]).to eq(word)
    end
    expect(rows_of("/api/v1/nodes")["nodes"].map { |node| node["description"] }).to include(*Hostile::ALL.map { |text| text[/\A[^\0]*/] })
    expect(site.get("/metrics").body.lines.grep_v(/\A(# (HELP|TYPE) seriatim_\w+ .*|seriatim_\w+(\{(\w+="([^"\\]|\\.)*",?)+\})? [-+.\dInfNae]+)\n\z/)).to eq([])
  end

  it "D1 are never decoded: a pickle and a Marshal that would write a file stay bytes" do
    proof = File.join(live.redis.folder, "owned")
    queue = Application.worker("Pickled")
    queue.codec = :raw
    texts = ["cposix\nsystem\n(S'touch #{proof}'\ntR.", Marshal.dump([proof, Struct]).b, "!!python/object/apply:os.system ['touch #{proof}']", "return os.execute('touch #{proof}')"]
    queue.perform_async(texts.map.with_index { |text, number| { id: "p#{number}", payload: text, delay: 3600 } })
    open("enqueued", queue: "Pickled")
    browser.waited("rows") { ids.size == 4 }
    4.times do |number|
      open("id", queue: "Pickled", id: "p#{number}")
      browser.waited("payloads") { browser.there?(".payloads pre") }
    end
    ["records", "id?id=p0", "hottest"].each { |rest| expect(site.get(Site.queue("Pickled", rest)).status).to eq(200) }
    expect(site.get(Site.worker("Pickled", "range_by_id")).body).to include("cposix")
    expect(File.exist?(proof)).to be(false)
    expect(browser.harm).to eq([])
  end

  it "D10 are shown as the redaction leaves them, on every page and route" do
    live["Live"].perform_async([{ id: "private", payload: { card: "SECRET4711" }, context: { "card" => "SECRET0815" }, delay: 3600 },
                                { id: "private dead", payload: { fail: "no SECRET1234" }, retry_count: 2 }])
    live.until_true("dead") { live["Live"].metrics[:morgue_length] == 1 }
    query = "?id=private&q=private&queue=Live&span=1h&part=dead&by=id"
    routes = Seriatim.module_eval { const_get(:Native) }.web_routes.reject { |_, pattern, _, mutates| mutates || pattern.include?("/consume/") }.map { |_, pattern| pattern.sub(/:(worker|queue)/, "Live") }
    answers = routes.map { |path| site.get(path + query) }
    expect(answers.map(&:status).uniq).to eq([200])
    answers += routes.map { |path| site.get("#{path}#{query.sub("dead", "waiting")}") }
    expect(answers.map(&:body).join).to include("****")
    expect(answers.map(&:body).join).not_to include("SECRET")
    [["enqueued", { queue: "Live" }], ["dead", { queue: "Live" }], ["id", { queue: "Live", id: "private" }], ["id", { queue: "Live", id: "private dead" }]].each do |page, parameters|
      open(page, **parameters)
      see("****")
      expect(browser.value("document.documentElement.outerHTML")).not_to include("SECRET")
    end
  end
end
