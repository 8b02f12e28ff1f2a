# frozen_string_literal: true

require_relative "spec_helper"

# How the page words a duration: the browser's own, so one mount will do.
RSpec.describe "durations", mount: House::MOUNTS.keys.first do
  # What a function of core/web/ui/format.js makes of each of these.
  def formatted(function, *inputs)
    open("search")
    browser.waited("a page") { browser.there?("main h1") }
    browser.value("import([...document.scripts].at(-1).src.replace('app/app.js', 'ui/format.js')).then((m) => arguments[1].map((input) => m[arguments[0]](input)))", function, inputs)
  end

  it "are two units, the larger first" do
    year = 365 * 86_400
    words = { 0 => "0 s", -3 => "0 s", 0.0001 => "1 ms", 0.25 => "250 ms", 0.9994 => "999 ms", 0.9996 => "1 s", 1 => "1 s", 59.4 => "59 s", 59.6 => "1 m", 61 => "1 m 1 s",
              3599.6 => "1 h", 3660 => "1 h 1 m", 5399 => "1 h 29 m", 86_399 => "23 h 59 m", 86_400 => "1 d", 93_600 => "1 d 2 h", year - 1 => "364 d 23 h", year => "1 y",
              100 * year + 25 * 86_400 => "100 y 25 d" }
    expect(formatted("duration", *words.keys)).to eq(words.values)
    expect(formatted("duration", nil, "x")).to eq(["–", "–"])
  end

  it "stand in what the core says of an id" do
    said = {
      "it is due in 3598.2 s; node a:1 owns its shard" => "It is due in 59 m 58 s; node a:1 owns its shard.",
      "it failed; it became due 90000.0 s ago; its shard is paused" => "It failed; it became due 1 d 1 h ago; its shard is paused.",
      "it is due in 0.4 s; node is due in 7200.0 s owns its shard" => "It is due in 400 ms; node is due in 7200.0 s owns its shard.",
      "it runs, or is claimed to run on node 3600.0 s" => "It runs, or is claimed to run on node 3600.0 s.", "" => ""
    }
    expect(formatted("sentence", *said.keys)).to eq(said.values)
  end
end

# How core/web/ui/format.js cuts a text, and the pages an id.
RSpec.describe "long texts", mount: House::MOUNTS.keys.first do
  ONE_LINE = "import([...document.scripts].at(-1).src.replace('app/app.js', 'ui/format.js')).then((m) => m.oneLine(...arguments))"

  it "are cut between characters" do
    queue = House.queue
    open("search")
    browser.waited("a page") { browser.there?("main h1") }
    gems = "\u{1F48E}" * 10
    expect([browser.value(ONE_LINE, gems, 5), browser.value(ONE_LINE, gems, 6), browser.value(ONE_LINE, gems, 20)]).to eq(["#{gems[0, 2]}…", "#{gems[0, 3]}…", gems])
    id = "a#{"\u{1F48E}" * 100}"
    live[queue].perform_async([{ id: id, payload: 1, delay: 3600 }])
    open("enqueued", queue: queue)
    browser.waited("the id") { browser.there?("main tr.row") }
    expect(browser.value("document.querySelector('main tr.row .name').textContent.isWellFormed()")).to be(true)
  end
end

# What core/web/ui/dialogs.js asks for before ids of a queue are deleted, in a field of one line.
RSpec.describe "the text to type", mount: House::MOUNTS.keys.first do
  TYPABLE = "import([...document.scripts].at(-1).src.replace('app/app.js', 'ui/dialogs.js')).then((m) => arguments[0].map(m.typable))"

  it "is the name of the queue, or a word if the name cannot be typed as it is" do
    open("search")
    browser.waited("a page") { browser.there?("main h1") }
    asked = { "Orders" => "Orders", "two words" => "two words", "a\nb" => "confirm", "a\r\nb" => "confirm", " a" => "confirm", "a\u200bb" => "confirm", { base64: "/w==" } => "confirm" }
    expect(browser.value(TYPABLE, asked.keys)).to eq(asked.values)
  end
end

# What core/web/app/session.js makes of the figures of an overview that was hidden, held or left for a while.
RSpec.describe "figures a second", mount: House::MOUNTS.keys.first do
  # The figures come at these times (seconds); `pushed` is the number of jobs at each. Of the last: {times: of the ticks of the live chart, chart: jobs a second there, queue: those of the queue}
  SEEN = <<~JS
    (async (all) => {
      const { loadDashboard, ratesOf, session } = await import([...document.scripts].at(-1).src.replace("app/app.js", "app/session.js"));
      session.ticks.length = 0;
      const ask = window.fetch;
      try {
        for (const [now, pushed] of all) {
          const queue = { name: `made up ${all.length}`, pushed, processed: 0, failed: 0, lag: 0 };
          window.fetch = async () => new Response(JSON.stringify({ now, queues: [queue] }));
          await loadDashboard();
        }
      } finally {
        window.fetch = ask;
      }
      return { times: session.ticks.map(({ time }) => time), chart: session.ticks.at(-1).rates.enqueued, queue: ratesOf({ name: `made up ${all.length}` }).in };
    })(...arguments)
  JS

  def seen(*all)
    open("search")
    browser.waited("a page") { browser.there?("main h1") }
    browser.value(SEEN, all)
  end

  it "are of the time since the last look, and the chart holds what was seen" do
    expect(seen([100, 0], [101, 10], [103, 30])).to eq("times" => [100, 101, 103], "chart" => 10, "queue" => 10)
  end

  it "begin anew after a gap" do
    expect(seen([100, 0], [101, 10], [116, 40])).to eq("times" => [116], "chart" => nil, "queue" => nil)
    expect(seen([100, 0], [101, 10], [400, 40], [401, 43])).to eq("times" => [400, 401], "chart" => 3, "queue" => 3)
  end
end

# What core/web/pages/paging.js makes of what is entered in a field for a time.
RSpec.describe "entered times", mount: House::MOUNTS.keys.first do
  after { browser.time_zone("") }

  it "are of the hour that the field showed if the clock repeats that hour" do
    browser.time_zone("Europe/Berlin")
    open("search")
    browser.waited("a page") { browser.there?("main h1") }
    first, second = [0, 1].map { |hour| Time.utc(2026, 10, 25, hour, 30).to_i } # both are 02:30 there
    entered = {
      ["2026-10-25T02:30:00", nil] => first, ["2026-10-25T02:30:00", first] => first, ["2026-10-25T02:30:00", second] => second,
      ["2026-10-25T02:45", second + 0.5] => second + 900, ["2026-10-25T02:00", second] => second - 1800, ["2026-10-25T01:30:00", second] => first - 3600,
      ["2026-10-25T03:30:00", second] => second + 3600, ["2026-10-24T02:30:00", second] => first - 86_400
    }
    found = browser.value("import([...document.scripts].at(-1).src.replace('app/app.js', 'pages/paging.js')).then((m) => arguments[0].map(([value, shown]) => m.timeOf(value, shown)))", entered.keys)
    expect(found).to eq(entered.values)
  end

  it "leave a payload where it was if the time is not changed, in the second of two equal hours too" do
    queue = House.queue
    last = Time.utc(Time.now.year + 1, 10, 31) # of October; on its last Sunday 01:30 UTC is the second 02:30 in Berlin
    second = (last - (last.wday * 86_400) + 5400).to_i
    handle, = live[queue].perform_async([{ id: "a", payload: "x", deliver_at: second }]).handles
    browser.time_zone("Europe/Berlin")
    open("scheduled", queue: queue)
    browser.press("Reschedule", within: row(handle))
    browser.waited("a field") { browser.value("document.querySelector('dialog input')?.value")&.include?("T02:30") }
    browser.click("dialog [type=submit]")
    shows("Payload rescheduled.") { told }
    expect(live[queue].queries.range_by_deliver_at("-inf", "+inf").map { |payload| payload[:deliver_at] }).to eq([second])
  end
end
