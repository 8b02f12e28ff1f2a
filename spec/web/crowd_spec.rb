# frozen_string_literal: true

require_relative "spec_helper"

# A store with a thousand of everything, in which nobody works.
class Crowd
  MANY = 1000
  QUEUES = Array.new(MANY) { |number| format("Queue %04d", number) }.freeze
  FULL = QUEUES.first

  attr_reader :redis

  def initialize
    @redis = RedisServer.new
    Seriatim.redis = @redis.url
    @queues = QUEUES.to_h { |name| [name, worker(name)] }
    @queues.each_value { |queue| queue.perform_async([{ id: "waiting", payload: 1, delay: 3600 }]) }
    @queues[FULL].perform_async(Array.new(MANY) { |number| { id: format("id-%04d", number), payload: { n: number }, delay: 3600 + number } })
    nodes
  end

  def close = @redis.remove

  # Changes what a refresh shows, all over the table.
  def push(id)
    Seriatim.redis = @redis.url
    @queues.each_value.with_index { |queue, number| queue.perform_async([{ id: id, payload: 1, delay: 3600 }]) if number % 10 == 0 }
  end

  def fill(name)
    @queues[name].perform_async(Array.new(30) { |number| { id: "full-#{number}", payload: 1, delay: 3600 } })
  end

  private

  def worker(name)
    Application.worker(name).tap { |queue| queue.shards_count = 1 }
  end

  def nodes
    MANY.times do |number|
      name = format("node-%04d", number)
      @redis.call("ZADD", "seriatim:{/nodes}:alive", ((Time.now.to_f + 3600) * 1000).to_i, name)
      @redis.call("HSET", "seriatim:{/nodes}:info", name, "ruby|machine #{number} seriatim 1.0.0")
    end
  end
end

# A thousand rows: the browser's own, so one mount will do.
RSpec.describe "a thousand rows", mount: House::MOUNTS.keys.first do
  COST = 0.05 # seconds of the main thread a refresh, where WORK takes PIECE; more on a slower machine
  PIECE = 0.06 # seconds of it
  WORK = <<~JS
    (() => {
      const place = document.body.appendChild(document.createElement("div"));
      for (let n = 0; n < 2000; n++) place.appendChild(document.createElement("p")).append(`row ${n}`);
      const height = place.getBoundingClientRect().height;
      place.remove();
      return height;
    })()
  JS

  before(:all) do
    @crowd = Crowd.new
    @mount = House::MOUNTS.values.first.new(@crowd.redis)
  end

  after(:all) { [@mount, @crowd].compact.each(&:close) }
  after { |example| expect(browser.harm).to eq([]) unless example.exception }

  def site(kind = :open) = @mount.site(kind)

  # Has the page ask anew, as when a reader comes back to its tab, and comes back when the answer is drawn.
  REFRESH = <<~JS
    new Promise((done) => {
      new PerformanceObserver((list, observer) => {
        if (!list.getEntries().some((entry) => entry.name.includes(arguments[0]))) return;
        observer.disconnect();
        setTimeout(() => requestAnimationFrame(() => setTimeout(() => done(true), 50)), 100);
      }).observe({ type: "resource" });
      document.dispatchEvent(new Event("visibilitychange"));
    })
  JS

  # @return [Array<Float>] seconds of work, of each refresh
  def refreshes(path, count: 8)
    browser.value(REFRESH, path)
    Array.new(count) do |number|
      yield number if block_given?
      worked { browser.value(REFRESH, path) }
    end
  end

  def worked
    begun = browser.worked
    yield
    browser.worked - begun
  end

  def quick(what, costs)
    RSpec.configuration.reporter.message("#{what}: #{costs.map { |seconds| format("%.1f", seconds * 1000) }.join(" ")} ms of the main thread a refresh")
    pieces = Array.new(8) { worked { browser.value(WORK) } }
    RSpec.configuration.reporter.message("the piece of work: #{pieces.map { |seconds| format("%.1f", seconds * 1000) }.join(" ")} ms")
    expect(costs.min).to be < COST * [pieces.min / PIECE, 1].max
  end

  it "of queues: a refresh takes less than 50 ms" do
    open("")
    see("1,000 queues")
    quick("1,000 queues", refreshes("api/web/dashboard") { |number| @crowd.push("more-#{number}") })
  end

  it "of nodes" do
    open("nodes")
    see("1,000 living nodes")
    quick("1,000 nodes", refreshes("api/v1/nodes"))
  end

  it "of ids, a hundred of them on a page" do
    open("enqueued", queue: Crowd::FULL)
    see("1 to 100 of 1,0")
    quick("a page of 100 ids", refreshes("/records"))
  end

  # What a refresh must leave alone: where one is, what has the focus, what is marked.
  HELD = <<~JS
    (() => {
      const top = [...document.querySelectorAll("tr.row")].find((row) => row.getBoundingClientRect().top > 60);
      return { scroll: scrollY, top: top.dataset.key, focus: document.activeElement.closest("tr.row")?.dataset.key ?? document.activeElement.localName, marked: String(getSelection()) };
    })()
  JS
  MARK = <<~JS
    ((row) => {
      const name = row.querySelector("bdi");
      row.querySelector("a").focus({ preventScroll: true });
      getSelection().selectAllChildren(name);
      return row.dataset.key;
    })(document.querySelector(arguments[0]))
  JS

  it "leave the reader's place, focus and marks alone" do
    open("")
    see("1,000 queues")
    browser.value("scrollTo(0, 20000) ?? 1")
    browser.waited("the rows there") { browser.there?(row("Queue 0480")) }
    marked = browser.value(MARK, row("Queue 0480"))
    before = browser.value(HELD)
    expect(before).to include("focus" => marked, "marked" => "Queue 0480")
    figure = -> { cell("Queue 0480", "Enqueued").to_i }
    past = figure.call
    @crowd.push("newest")
    browser.waited("the refresh") { figure.call == past + 1 }
    expect(browser.value(HELD)).to eq(before)
    browser.value("scrollTo(0, 100) ?? 1")
    browser.waited("other rows") { browser.there?(row("Queue 0002")) && !browser.there?(row("Queue 0470")) }
    expect(browser.value(HELD)).to include("focus" => marked, "marked" => "Queue 0480")
    browser.keys("\uE015")
    # The page scrolls first and draws the rows there one frame later; a key that comes between finds no next row.
    browser.waited("the row of the focus and the next") { browser.value(HELD)["scroll"] > 10_000 && browser.there?(row("Queue 0481")) }
    browser.keys("\uE015")
    browser.waited("the next row") { browser.value(HELD)["focus"] == "tQueue 0481" }
  end

  it "keep what is selected, and the order under the pointer" do
    open("enqueued", queue: Crowd::FULL)
    browser.click(%(#{row("id-0007")} input))
    see("1 selected")
    browser.value(REFRESH, "/records")
    see("1 selected")
    expect(browser.value("document.querySelector(arguments[0]).checked", %(#{row("id-0007")} input))).to be(true)
    open("")
    browser.press("Enqueued", within: "thead")
    browser.waited("the fullest first") { ids.first == Crowd::FULL }
    browser.value("document.querySelector(arguments[0]).focus({ preventScroll: true }) ?? 1", "tr.row + tr.row")
    before = ids.first(20)
    last = ids[20]
    @crowd.fill(last)
    browser.waited("the refresh") { cell(last, "Enqueued").to_i > 20 }
    expect(ids.first(20)).to eq(before)
    browser.value("document.activeElement.blur() ?? 1")
    browser.waited("its place") { ids[1] == last }
  end
end

# Of more ids than one look reads.
RSpec.describe "the errors of many ids", mount: House::MOUNTS.keys.first do
  it "R-WEB-7: are counted as at least so many, in the list and before they are acted on" do
    queue = House.queue
    21.times { |k| live[queue].perform_async(Array.new(1000) { |n| { id: "failed-#{k}-#{n}", delay: 3600, retry_count: 1 } }) }
    open("enqueued", queue: queue)
    browser.waited("the group") { browser.there?("li.group .group-count") }
    expect(rows_of("#{Site.queue(queue, "errors")}?part=retrying").values_at("seen", "of")).to match([be < 21_000, 21_000])
    expect(browser.text("li.group .group-count")).to match(/\A≥ *\d/)
    browser.press("Retry these now", within: "li.group")
    browser.waited("the question") { browser.text("dialog h2")&.match?(/\ARetry ≥ [\d.,K]+ ids now\?\z/) }
    browser.press("Cancel", within: "dialog")
    expect(browser.harm).to eq([])
  end
end
