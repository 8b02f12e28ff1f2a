# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/accessibility"

# What readers with a keyboard, a finger or a screen reader need, on every page, and how texts of others are shown. It is the pages' own, so one mount shows it.
RSpec.describe "the pages, for every reader", mount: House::MOUNTS.keys.first do
  let(:queue) { House.queue }

  after do
    browser.size(1440, 900)
    browser.theme("light")
  end
  after { |example| expect(browser.harm).to eq([]) unless example.exception }

  include Accessibility

  def fill
    live.fill(queue, later: 3, retrying: 2, dead: 6, parked: 2, running: 1)
    long = { "lines" => Array.new(60) { |n| { "line" => n, "article" => "A-#{n}" } } }
    live[queue].perform_async([{ id: "long", payload: long, delay: 3600, context: { "by" => "Ada" } }])
    live[queue].perform_async(Array.new(3) { |n| { id: "long", payload: long, deliver_in: 3600 + n } })
    live[queue].perform_async(Array.new(8) { |n| { id: "o-#{n}", payload: { fail: "trouble #{n}\n#{"from here\n" * 60}" }, retry_count: 2 } })
    live.until_true("14 dead") { live[queue].metrics[:morgue_length] == 14 }
  end

  PAGE_STATES = { "overview" => ["", {}], "queue" => ["queue", :name], "enqueued" => ["enqueued", :queue], "running of a queue" => ["running", :queue], "dead" => ["dead", :queue],
            "parked" => ["parked", :queue], "scheduled" => ["scheduled", :queue], "an id" => ["id", :queue, "long"], "a dead id" => ["id", :queue, "o-1"], "running" => ["running", nil], "nodes" => ["nodes", nil],
            "search" => ["search", nil, "o-"], "no page" => ["nonsense", nil] }.freeze

  it "can be reached with the keyboard and pressed with a finger, wide and narrow, light and dark, with rows selected and questions open" do
    fill
    found = {}
    look = ->(*what) { faults.then { |all| found[what] = all unless all.empty? } }
    [[1440, 900], [390, 844]].each do |width, height|
      browser.size(width, height)
      PAGE_STATES.each do |name, (page, word, id)|
        parameters = { word => queue, (page == "search" ? :q : :id) => id }.select { |key, value| key.is_a?(Symbol) && value }
        open(page, **parameters)
        browser.waited(name) { browser.there?("main h1") && !browser.there?(".skeleton") }
        %w[light dark].each { |theme| browser.theme(theme) && look[name, width, theme] }
        next unless browser.there?("td.pick input")

        browser.click("tr.row td.pick input")
        browser.waited("the bar") { browser.there?(".chosen") }
        look[name, width, "selected"]
        browser.click(".chosen .danger-text")
        browser.waited("a question") { browser.there?("dialog[open]") }
        look[name, width, "question"]
      end
      browser.keys("\uE00C") if browser.there?("dialog[open]")
      open("")
      browser.waited("the page") { browser.there?("tr.row") }
      browser.keys("?")
      browser.waited("the keys") { browser.there?("dialog[open] .words") }
      look["keys", width]
    end
    expect(found).to eq({})
  end

  it "say what each figure means to who has no pointer" do
    open("")
    browser.waited("the page") { browser.there?("tr.row") }
    browser.keys("?")
    browser.waited("the words") { browser.there?("dialog .words") }
    browser.texts("thead th").map(&:strip).reject { |text| ["", "Queue"].include?(text) }.each { |label| expect(browser.texts("dialog .words dt")).to include(label) }
    expect(browser.text("dialog")).to include("How long the oldest job that is due has been waiting")
  end

  it "show joiners where a language or an emoji needs them, and escape them elsewhere" do
    open("search")
    browser.waited("a page") { browser.there?("main h1") }
    shown = ->(*texts) { browser.value("import([...document.scripts].at(-1).src.replace('app/app.js', 'ui/format.js')).then((m) => arguments[0].map(m.shown))", texts) }
    written = ["\u{1F468}\u200D\u{1F469}\u200D\u{1F467}", "\u2764\uFE0F\u200D\u{1F525}", "\u{1F44D}\u{1F3FD}\u200D\u{1F469}", "\u0645\u06CC\u200C\u062E\u0648\u0627\u0647\u0645", "\u0915\u094D\u200D\u0937"]
    expect(shown[*written]).to eq(written)
    hidden = { "a\u200Db" => "a\\u{200d}b", "pay\u200Cpal" => "pay\\u{200c}pal", "\u{1F469}\u200C\u{1F469}" => "\u{1F469}\\u{200c}\u{1F469}", "\u06CC\u200C" => "\u06CC\\u{200c}",
               "x\u202Ey\u200B" => "x\\u{202e}y\\u{200b}", "\u200D" => "\\u{200d}" }
    expect(shown[*hidden.keys]).to eq(hidden.values)
  end

  it "show JSON with its members on lines of their own, exactly as it is written, and other texts as they are" do
    open("search")
    browser.waited("a page") { browser.there?("main h1") }
    indented = ->(*texts) { browser.value("import([...document.scripts].at(-1).src.replace('app/app.js', 'ui/format.js')).then((m) => arguments[0].map((text) => m.indented(text).join('')))", texts) }
    expect(indented['{"a":12345678901234567890,"b":[1,{}],"c":"x\"{y","d":[]}', '"text"', "[31m no JSON", "17"])
      .to eq([%({\n  "a": 12345678901234567890,\n  "b": [\n    1,\n    {}\n  ],\n  "c": "x\\"{y",\n  "d": []\n}), '"text"', "[31m no JSON", "17"])
  end

  # Where that text begins and ends in the first payload: from the left.
  LIES = <<~JS
    ((text) => {
      const nodes = document.createTreeWalker(document.querySelector(".payloads pre"), NodeFilter.SHOW_TEXT);
      while (nodes.nextNode()) {
        const [node, range, at] = [nodes.currentNode, document.createRange(), nodes.currentNode.data.indexOf(text)];
        if (at < 0) continue;
        range.setStart(node, at);
        range.setEnd(node, at + text.length);
        const { left, right } = range.getBoundingClientRect();
        return [left, right];
      }
    })(...arguments)
  JS

  it "show the key of a member of JSON in front of its value, also where both are written from right to left" do
    name, value, number = "\u0627\u0633\u0645", "\u0645\u0631\u062D\u0628\u0627", "\u05DE\u05E1\u05E4\u05E8"
    live[queue].perform_async([{ id: "written", payload: { "x" => "y", number => 4711, name => value }, delay: 3600 }])
    open("id", queue: queue, id: "written")
    browser.waited("the payload") { browser.there?(".payloads pre") }
    expect(browser.value("document.querySelector('.payloads pre').textContent")).to eq(%({\n  "x": "y",\n  "#{number}": 4711,\n  "#{name}": "#{value}"\n}))
    { "x" => "y", number => "4711", name => value }.each do |before, after|
      expect(browser.value(LIES, before)[1]).to be < browser.value(LIES, after)[0]
    end
  end

  # Looks in ten queues after the other until a found id is what the block wants.
  def look_further(&wanted)
    further = "[...document.querySelectorAll('main button')].find((button) => button.innerText.trim() === 'Look further')?.click() ?? 1"
    browser.waited("the beginning") { browser.texts(".ids li").any?(&wanted) || (browser.value(further) && false) }
  end

  it "find an id with spaces around it, queues by their names, and beginnings in all queues" do
    live[queue].perform_async([{ id: "order of #{queue}", payload: 1, delay: 3600 }])
    open("")
    browser.waited("the field") { browser.there?("#search") }
    browser.type("#search", "  order of #{queue} ")
    browser.keys("\uE007")
    browser.waited("the id") { browser.texts("main tr.row").any? { |text| text.include?("order of #{queue}") } }
    open("search", q: queue.downcase)
    browser.waited("the queue") { browser.texts(".queue-names li") == [queue] }
    open("search", q: "order of #{queue[0, 7]}")
    look_further { |text| text.include?("order of #{queue}") && text.end_with?(queue) }
  end

  it "find the beginning of an id in a queue that holds but dead ids" do
    live[queue].perform_async([{ id: "gone of #{queue}", payload: { fail: "x" }, retry_count: 2 }])
    live.until_true("the death") { live[queue].metrics[:morgue_length] == 1 }
    open("search", q: "gone of #{queue}"[0..-2])
    look_further { |text| text.include?("gone of #{queue}") }
  end

  it "look further after an answer that failed" do
    live[queue].perform_async(Array.new(150) { |n| { id: "order-#{n}", payload: 1, delay: 3600 } })
    open("search", q: "order-", queue: queue)
    browser.waited("the first of them") { browser.there?(".ids li") }
    missing = Array.new(150) { |n| "order-#{n}" } - browser.texts(".ids li").map(&:strip)
    browser.value("(() => { const ask = window.fetch; window.fetch = async (url, options) => { if (!url.includes('prefix=1')) return ask(url, options); " \
                  "window.fetch = ask; return new Response('{\"error\":\"Redis timed out\"}', { status: 503 }); }; return 1; })()")
    browser.press("Look further")
    browser.waited("the failed answer") { browser.value("window.fetch.toString().includes('[native code]')") }
    look_further { |text| missing.include?(text.strip) }
  end

  it "say of refused results that they came too late" do
    live.use
    Application.worker("Popped").perform_async([{ id: "late", payload: 1 }])
    consume = ->(route, **body) { site.post("/api/v1/consume/#{route}", body) }
    popped = -> { consume["pop", queues: ["Popped"], wait: 10].json.fetch("token") }
    token = popped.call
    expect(%w[release ack].map { |route| consume[route, token: token].status }).to eq([200, 409])
    expect(consume["ack", token: popped.call].status).to eq(200)
    open("queue", name: "Popped")
    badge = "[...document.querySelectorAll('.badge')].find((e) => e.innerText.trim() === '1 refused')?.title ?? null"
    shows("Results refused because they came too late: those ids had been given to another process") { browser.value(badge) }
  end

  it "ask for the token until it is given, however often Escape is pressed" do
    forget_token = "sessionStorage.removeItem('seriatim.token') ?? 1" # of another example
    open("", on: site(:token))
    browser.value(forget_token)
    browser.reload
    question = -> { browser.waited("the question") { browser.there?("dialog[open] input[type=password]") } }
    3.times { question.call && browser.keys("\uE00C") }
    browser.type("dialog[open] input", mount.token)
    browser.click("dialog[open] [type=submit]")
    browser.waited("the page") { browser.there?("tr.row") && !browser.there?("dialog") }
  ensure
    browser.value(forget_token)
  end

  it "lead to where a reader signs in when the session has ended" do
    open("")
    browser.waited("the page and all its answers") { browser.there?("tr.row") && browser.text(".pulse")&.strip == "Live" } # else it never was signed in
    browser.cookie("role", "nobody")
    see("you are not signed in")
    expect(browser.there?("input[type=password]")).to be(false)
  ensure
    browser.forget_cookies
  end

  it "print in light colours whatever the theme is, without what is pressed" do
    live.fill(queue, dead: 2)
    open("dead", queue: queue)
    browser.waited("rows") { browser.there?("tr.row") && browser.there?("li.group") }
    browser.theme("dark")
    browser.value("(document.documentElement.dataset.theme = 'dark')")
    browser.print do
      light = ->(selector, property) { browser.value("getComputedStyle(document.querySelector(arguments[0]))[arguments[1]].match(/\\d+/g).slice(0, 3).map(Number)", selector, property) }
      expect(light["body", "backgroundColor"]).to eq([255, 255, 255])
      expect(light["h1", "color"].max).to be < 80
      expect(browser.value("[...document.querySelectorAll('button, .row-actions, .pick')].filter((e) => e.checkVisibility()).map((e) => e.outerHTML.slice(0, 100))")).to eq([])
    end
  ensure
    browser.value("localStorage.clear() ?? 1")
  end

  it "colour what should be zero, name what is late in the tab, and begin with it" do
    live.fill(queue, dead: 1)
    open("")
    browser.waited("rows") { browser.there?(row(queue)) }
    dead = browser.value("[...document.querySelectorAll('td[data-label=Dead] .figure:not(.zero)')].map((e) => e.className)").uniq
    expect(dead - ["figure bad"]).to eq([])
    troubled = rows_of("/api/web/dashboard")["queues"].select { |each| each["dead"].positive? || each["retries"].positive? }.map { |each| each["name"] }
    expect(ids.first(troubled.size)).to match_array(troubled) unless troubled.empty? || rows_of("/api/web/dashboard")["queues"].any? { |each| each["lag"] >= 60 }
    late = "import([...document.scripts].at(-1).src.replace('app.js', 'session.js')).then((m) => { m.session.dashboard.queues[0].lag = 61; window.dispatchEvent(new Event('resize')); })"
    browser.waited("the tab") { browser.value(late) || browser.value("document.title").match?(/\A\(\d+\) /) } # an answer may undo it
  end

  it "show all of a payload of which only the beginning is shown, through the redaction" do
    long = { "text" => "x" * 20_000, "card" => "SECRET123", "z" => "here" }
    live[queue].perform_async([{ id: "long", payload: long, delay: 3600 }])
    open("id", queue: queue, id: "long")
    browser.waited("the beginning") { browser.there?(".payloads pre") }
    expect(browser.text(".payloads pre").size).to be < 4200
    browser.press("Show all of it")
    browser.waited("the end") { browser.text(".payloads pre").include?('"z": "here"') }
    expect(browser.text(".payloads pre")).not_to include("SECRET123")
    path = "#{Site.queue(queue, "id")}?id=long"
    expect(site.get(path).json.dig("job", "payloads", 0, 0).bytesize).to be <= 4096
    expect(site.get("#{path}&whole=1").json.dig("job", "payloads", 0, 0)).to include('"z":"here"')
    expect(%w[0 101 x].map { |number| site.get("#{path}&whole=#{number}").status }).to eq([400, 400, 400])
  end
end
