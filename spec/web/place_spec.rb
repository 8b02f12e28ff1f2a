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

  it "is open to whom the address is sent: a page of a list without those before it" do
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
    expect(focus).to include("t#{queue}")
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
end
