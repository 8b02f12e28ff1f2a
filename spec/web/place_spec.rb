# frozen_string_literal: true

require_relative "spec_helper"

# Where a reader is: the address holds it, Back and a reload return to it, and nothing moves under the pointer. One mount shows it, as the pages alone do this.
RSpec.describe "the reader's place", mount: House::MOUNTS.keys.first do
  let(:queue) { House.queue }

  after { |example| expect(browser.harm).to eq([]) unless example.exception }

  FOCUS = <<~JS
    (() => {
      const { activeElement: e } = document;
      return [e.localName, e.closest("[data-key]")?.dataset.key ?? null, e.getAttribute("href") ?? e.innerText.trim()];
    })()
  JS
  # The first row whose link is in sight.
  IN_SIGHT = "[...document.querySelectorAll('main tr.row')].find((row) => row.getBoundingClientRect().top > 300).dataset.key.slice(1)"

  def scroll = browser.value("Math.round(scrollY)")
  def focus = browser.value(FOCUS)
  def heading(text) = browser.waited("the page #{text}") { browser.text("main h1") == text }

  # Opens the id in that row by a click, and goes back.
  def there_and_back(id)
    browser.click(%(#{row(id)} a))
    heading(id)
    browser.back
    heading(queue)
  end

  it "is the same after Back and after a reload: the page of the list, the scroll position, the focus" do
    live[queue].perform_async(Array.new(230) { |n| { id: format("p-%03d", n), payload: n, delay: 3600 + n } })
    second = Array.new(100) { |n| format("p-%03d", 100 + n) }
    open("enqueued", queue: queue)
    browser.waited("a page") { ids.size == 100 }
    browser.press("Next")
    shows(second) { ids }
    browser.value("scrollTo(0, 1500) ?? 1")
    browser.waited("the rows there") { scroll == 1500 }
    chosen = browser.value(IN_SIGHT)
    there_and_back(chosen)
    shows(second) { ids }
    shows([1500, "t#{chosen}"]) { [scroll, focus[1]] }
    see("101 to 200 of 230")
    browser.reload
    shows(second) { ids }
    shows([1500, "t#{chosen}"]) { [scroll, focus[1]] }
    browser.press("Previous")
    browser.waited("the first page") { ids.first == "p-000" }
    browser.back
    shows(second) { ids }
    browser.back
    browser.waited("the first page") { ids.first == "p-000" }
    see("1 to 100 of 230")
  end

  # Answers of another page of a list wait until let_go; from now on, it is noted whether a row was struck through.
  def hold_pages
    browser.value(<<~JS)
      (() => {
        const [ask, gate] = [window.fetch, new Promise((go) => { window.letGo = go; })];
        window.fetch = async (url, options) => { if (String(url).includes("cursor=")) await gate; return ask(url, options); };
        const look = () => { window.sawGone ||= document.querySelector("main tr.gone") !== null; };
        new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributes: true });
      })()
    JS
  end

  # Next lies below the rows. When it is pressed, the list is scrolled to its head, and its rows are where the pointer is.
  it "shows the rows of the next page alone while the pointer is on the list" do
    live[queue].perform_async(Array.new(130) { |n| { id: format("p-%03d", n), payload: n, delay: 3600 + n } })
    live[queue].perform_async(Array.new(130) { |n| { id: format("s-%03d", n), payload: n, deliver_in: 3600 + n } })
    %w[enqueued scheduled].each do |page|
      open(page, queue: queue)
      browser.waited("a page") { browser.texts("main tr.row").size == 100 }
      hold_pages
      browser.press("Next")
      browser.point_at(500, 500)
      browser.waited("the pointer there") { browser.there?("main tbody:hover") }
      let_go
      see("101 to 130 of 130")
      expect(browser.value("window.sawGone ?? false")).to be(false)
      expect(browser.texts("main tr.row").size).to eq(30)
    end
  end

  it "is in the address: a page of a list opens without those before it" do
    live[queue].perform_async(Array.new(130) { |n| { id: format("p-%03d", n), payload: n, delay: 3600 + n } })
    open("enqueued", queue: queue)
    browser.waited("a page") { ids.size == 100 }
    browser.press("Next")
    browser.waited("the second page") { ids.size == 30 }
    address = browser.url
    browser.visit("about:blank")
    browser.visit(address)
    browser.waited("the second page") { ids.size == 30 }
    see("101 to 130 of 130")
    browser.press("Previous")
    browser.waited("the first page") { ids.first == "p-000" }
  end

  it "holds the filter, the sort and the span of the overview" do
    live.fill(queue, later: 1)
    held = lambda do
      [browser.value("document.querySelector('.tools input').value"), browser.value("document.querySelector('.tools select').value"), ids,
       browser.texts("th[aria-sort]").map(&:strip), browser.value("document.querySelector('th[aria-sort]')?.ariaSort"), browser.text(".charts .choice [aria-pressed=true]")]
    end
    open("")
    browser.waited("rows") { browser.there?(row(queue)) }
    browser.type('input[aria-label="Filter queues"]', queue.downcase)
    browser.choose('select[aria-label="Which queues"]', "waiting")
    browser.press("Enqueued", within: "thead")
    browser.press("1 h", within: ".charts .choice")
    wanted = [queue.downcase, "waiting", [queue], ["Enqueued"], "descending", "1 h"]
    shows(wanted) { held.call }
    browser.click(%(#{row(queue)} a))
    heading(queue)
    browser.back
    heading("Overview")
    shows(wanted) { held.call }
    shows("t#{queue}") { focus[1] }
    browser.reload
    shows(wanted) { held.call }
    browser.value("history.replaceState(null, '', location.pathname) ?? 1")
    browser.reload
    shows(["", "all"]) { held.call.first(2) }
  end

  it "holds the span of a queue's page, the groups that were opened, and how runs are grouped" do
    live[queue].perform_async(Array.new(8) { |n| { id: "e-#{n}", payload: { fail: %w[one two three four five six seven eight][n] }, retry_count: 2 } })
    live.until_true("8 dead") { live[queue].metrics[:morgue_length] == 8 }
    open("queue", name: queue)
    browser.press("1 d", within: ".charts .choice")
    open_span = -> { browser.text(".charts .choice [aria-pressed=true]") }
    shows("1 d") { open_span.call }
    browser.reload
    shows("1 d") { open_span.call }
    browser.click('.tabs a[href*="dead"]')
    browser.waited("six groups") { browser.texts("li.group").size == 6 }
    browser.press("Show all 8 kinds")
    shows(8) { browser.texts("li.group").size }
    browser.click("li.group:nth-child(8) .group-ids a")
    browser.waited("an id") { browser.text("main h1").start_with?("e-") }
    browser.back
    shows(8) { browser.texts("li.group").size }
    shows("group") { browser.value("document.activeElement.closest('li')?.className ?? null") }
    browser.reload
    shows(8) { browser.texts("li.group").size }
    live[queue].perform_async([{ id: "busy", payload: { sleep: 900 } }])
    live.until_true("a run") { live[queue].metrics[:busy] == 1 }
    open("running")
    browser.press("By queue")
    browser.waited("the groups") { browser.there?("main h3") }
    browser.reload
    browser.waited("the groups") { browser.there?("main h3") && browser.text(".choice [aria-pressed=true]") == "By queue" }
  end

  # Where each of these is: {key: [x, y]} of its middle, from the top of the page.
  PLACES = <<~JS
    Object.fromEntries([...document.querySelectorAll(arguments[0])].map((e) => [e, e.getBoundingClientRect()])
      .map(([e, r]) => [e.closest("[data-key]")?.dataset.key ?? e.innerText, [r.x + r.width / 2, r.y + r.height / 2 + scrollY]]))
  JS

  def places(selector) = browser.value(PLACES, selector)

  # A refresh is drawn: the page asks anew, as when its reader comes back to the tab.
  def refresh
    browser.value("document.dispatchEvent(new Event('visibilitychange'))")
    sleep 1.5
  end

  { "a wide screen" => [1440, 900], "a phone" => [390, 844] }.each do |screen, size|
    it "does not move when rows are selected, on #{screen}" do
      browser.size(*size)
      live[queue].perform_async(Array.new(20) { |n| { id: format("s-%03d", n), payload: n, delay: 3600 + n } })
      open("enqueued", queue: queue)
      browser.waited("rows") { ids.size == 20 }
      things = "main tr.row, main h1, main h2, main .pages, main .filters select"
      before = places(things)
      boxes = places("main td.pick input").values_at("ts-000", "ts-001", "ts-002")
      browser.value("scrollTo(0, arguments[0]) ?? 1", boxes.first.last - 300)
      browser.click_at(*boxes.map { |x, y| [x, y - scroll] })
      see("3 selected")
      expect(browser.value("[...document.querySelectorAll('tr.row.selected')].map((row) => row.dataset.key)")).to eq(%w[ts-000 ts-001 ts-002])
      expect(places(things)).to eq(before)
      refresh
      expect(places(things)).to eq(before)
      browser.press("Select none", within: ".chosen")
      browser.waited("none") { !browser.there?(".chosen") }
      expect(places(things)).to eq(before)
    ensure
      browser.size(1440, 900)
    end
  end

  it "does not move while the pointer is on a list that a refresh shows: what is gone keeps its place, what is new comes last" do
    live[queue].perform_async(Array.new(12) { |n| { id: format("h-%03d", n), payload: n, delay: 3600 + n } })
    open("enqueued", queue: queue)
    browser.waited("rows") { ids.size == 12 }
    before = places("main tr.row")
    browser.point_at(*before.fetch("th-005"))
    live[queue].actions.delete(%w[h-002 h-003])
    live[queue].perform_async([{ id: "new", payload: 1, delay: 1800 }])
    browser.waited("the new one") { ids.include?("new") }
    now = places("main tr.row")
    expect(now.keys.last).to eq("tnew")
    expect(now.except("tnew")).to eq(before)
    expect(browser.texts("main tr.gone bdi")).to eq(%w[h-002 h-003])
    browser.click_at([before.fetch("th-002")[0], before.fetch("th-002")[1]])
    browser.point_at(5, 5)
    browser.waited("the rows as they are") { ids.first == "new" && ids.size == 11 && !browser.there?("main tr.gone") }
    expect(browser.text("main h1")).to eq(queue)
  end

  it "keeps the heads of tables in sight" do
    live[queue].perform_async(Array.new(80) { |n| { id: format("k-%03d", n), payload: n, delay: 3600 + n } })
    { 1440 => 900, 1000 => 700 }.each do |size|
      browser.size(*size)
      open("enqueued", queue: queue)
      browser.waited("rows") { ids.size == 80 }
      browser.value("scrollTo(0, 1200) ?? 1")
      browser.waited("the rows there") { scroll == 1200 }
      top, bar = browser.value("[document.querySelector('main th').getBoundingClientRect().top, document.querySelector('header').getBoundingClientRect().bottom]")
      expect(top).to be_within(1).of(bar)
      expect(browser.value("document.elementFromPoint(300, #{bar.to_i + 15}).closest('thead') !== null")).to be(true)
    end
  ensure
    browser.size(1440, 900)
  end

  it "R-WEB-20: filters the list by a group of errors, by the address, until the filter is removed" do
    errors = { "a" => "out of ink", "b" => "out of paper", "c" => "out of ink" }
    live[queue].perform_async(errors.map { |id, error| { id: id, payload: { fail: error }, retry_count: 2 } })
    live[queue].perform_async(errors.map { |id, error| { id: "#{id}#{id}", payload: { fail: error } } })
    live.until_true("3 dead, 3 retries") { live[queue].metrics.values_at(:morgue_length, :retries) == [3, 3] }
    { "dead" => %w[a c], "enqueued" => %w[aa cc] }.each do |page, wanted|
      open(page, queue: queue)
      browser.waited("two groups") { browser.texts("li.group").size == 2 }
      browser.press("out of ink", within: ".groups")
      shows(wanted) { ids.sort }
      see("Only with this error: out of ink")
      expect(browser.text('.groups a[aria-current="true"]')).to eq("out of ink")
      browser.press("Id", within: ".filters .choice")
      browser.reload
      shows(wanted) { ids.sort }
      expect(browser.texts(".filters .choice button")).not_to include("Retries")
      browser.press("Show ids with any error", within: ".filters")
      shows(3) { ids.size }
      browser.back
    end
  end

  it "keeps the groups of errors where they are while one of them has an id that went first, until its outcome is dismissed" do
    errors = { "paper" => 3, "ink" => 3, "power" => 2 }
    live[queue].perform_async(errors.flat_map { |word, count| Array.new(count) { |n| { id: "#{word}-#{n}", payload: { fail: "out of #{word}" }, retry_count: 2 } } })
    live.until_true("8 dead") { live[queue].metrics[:morgue_length] == 8 }
    open("dead", queue: queue)
    browser.waited("three groups") { browser.texts("li.group").size == 3 }
    lines = -> { browser.texts("li.group .error-line").map { |text| text[/out of (\w+)/, 1] } }
    counts = -> { browser.texts("li.group .group-count").map(&:to_i) }
    before = lines.call
    where = places("li.group, main tr.row")
    2.times do |round|
      browser.press("Retry one first", within: "li.group:first-child")
      browser.point_at(5, 5)
      browser.waited("its outcome") { browser.there?("li.group:first-child .trial.failed") }
      browser.waited("a smaller group") { counts.call.first == 2 - round }
      expect(lines.call).to eq(before)
      expect(places("li.group").slice(*where.keys)).to eq(where.slice(*places("li.group").keys))
    end
    browser.click("li.group:first-child .trial a")
    browser.waited("the id") { browser.text("main h1").start_with?(before.first) }
    browser.back
    browser.waited("the trial") { browser.there?("li.group:first-child .trial.failed") }
    expect(lines.call).to eq(before)
    browser.click("li.group:first-child .trial button")
    browser.point_at(5, 5)
    browser.value("document.activeElement.blur() ?? 1")
    browser.waited("the order by count") { lines.call == [*before.drop(1), before.first] && !browser.there?(".trial") }
  end
end
