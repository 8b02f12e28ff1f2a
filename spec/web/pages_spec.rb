# frozen_string_literal: true

require "erb"
require_relative "spec_helper"

# The figure in an element; a large one stands in its title, as the text is rounded.
FIGURE = "((element) => Number((element?.querySelector('.figure[title]')?.title ?? element?.innerText ?? '').replace(/\\D/g, '')))"
# Comes back when a row shows what is wanted ({label => [least, most]}), with the time by Redis' clock of the answer that is shown; null: it never does.
SHOWN = <<~JS
  import([...document.scripts].at(-1).src.replace("app/app.js", "app/session.js")).then(async ({ session }) => {
    const [row, wanted, past] = arguments;
    const fits = ([label, [least, most]]) => {
      const figure = #{FIGURE}(document.querySelector(`${row} td[data-label="${label}"]`));
      return figure >= least && figure <= (most ?? Infinity);
    };
    for (const end = performance.now() + 60000; performance.now() < end;) {
      const { now } = session.dashboard ?? {};
      if (now > past && Object.entries(wanted).every(fits)) return now;
      await new Promise((done) => setTimeout(done, 20));
    }
    return null;
  })
JS
SELECT = 'select[aria-label="Interval"]'

# Three that died in three seconds, one after another, as the page's field of a time has no parts of a second; stored once for all mounts.
module Dead
  def self.queue
    @queue ||= House.queue.tap do |name|
      live = House.live
      live[name].perform_async([3, 1, 2].map { |n| { id: "d-#{n}", payload: { fail: "no #{n}" }, retry_count: 2, delay: 3600 } })
      %w[d-2 d-3 d-1].each.with_index(1) do |id, count|
        live[name].perform_async([{ id: id, payload: 1, on_waiting: :replace }])
        live.until_true("#{count} dead") { live[name].metrics[:morgue_length] == count }
        second = live.redis.call("TIME").first
        live.until_true("the next second") { live.redis.call("TIME").first != second }
      end
    end
  end
end

# What the pages show and do, in a real browser. The same pages and the same core answer on every mount, so each example is on one of
# them at a time.
each_mount "the pages", of: Mounts::ALL.size do
  let(:queue) { House.queue }
  let(:path) { Site.worker(queue, "") }

  after { |example| expect(browser.harm).to eq([]) unless example.exception }

  # When the answer was made that the page shows, once it shows these figures of a queue and is newer than `past`.
  # @param wanted [{String => Integer, Range}]
  def shown_at(wanted, past: 0, of: queue)
    bounds = wanted.transform_values { |figure| figure.is_a?(Range) ? [figure.begin, figure.end] : [figure, figure] }
    browser.value(SHOWN, row(of), bounds, past) or raise "the page does not show #{wanted} of #{of}, but #{wanted.to_h { |label, _| [label, figure(label, of: of)] }}"
  end

  def figure(label, of: queue) = browser.value("#{FIGURE}(document.querySelector(arguments[0]))", %(#{row(of)} td[data-label="#{label}"]))

  # Of all rows, from the first to the last.
  def column(label) = browser.value("[...document.querySelectorAll(arguments[0])].map(#{FIGURE})", %(tr.row:not(.gone) td[data-label="#{label}"]))

  def store_clock = live.redis.call("TIME").then { |seconds, rest| seconds.to_i + (rest.to_i / 1e6) }

  # Whether an answer that shows what the block makes, and gives, is less than two seconds younger than it. Each attempt begins behind an
  # answer, so that a page that asks more rarely is always too late; some attempts are lost on a machine that has other things to do.
  def within_two_seconds(of: queue, attempts: 20)
    late = Array.new(attempts) do |attempt|
      shown_at({}, past: shown_at({}, of: of), of: of)
      wanted = yield attempt
      begun = store_clock
      after = shown_at(wanted, of: of) - begun
      return if after < 2

      after
    end
    raise "the page is never as new as two seconds, but #{late}"
  end

  it "R-WEB-6: show figures that follow the store within two seconds", :host do
    live.fill(queue, later: 1, retrying: 2, dead: 3, running: 1, parked: 1)
    open("")
    within_two_seconds do |attempt|
      live[queue].perform_async([{ id: "more-#{attempt}", payload: 1, delay: 3600 }])
      { "Enqueued" => 4 + attempt, "Fresh" => 2 + attempt, "Retries" => 2, "Delayed" => 2 + attempt, "Scheduled" => 0, "Busy" => 1,
        "Parked" => 1, "Dead" => 3, "Processed" => 0, "Failed" => 5 }
    end
    sums = rows_of("/api/v1/stats").fetch("total")
    shows([sums["length"], sums["morgue_length"]], "the sums") do
      %w[Enqueued Dead].map { |label| browser.value("#{FIGURE}([...document.querySelectorAll('.strip > div')].find((e) => e.innerText.startsWith(arguments[0]))?.querySelector('dd'))", label) }
    end
  end

  it "R-WEB-6: follow a worker at work, and hold still when asked to" do
    processed = -> { live["Live"].metrics[:processed] }
    shown = -> { figure("Processed", of: "Live") }
    pusher = Thread.new { (0..).each { |number| live["Live"].perform_async([{ id: number, payload: number }]) && sleep(0.05) } }
    open("")
    within_two_seconds(of: "Live") do
      past = shown.call
      live.until_true("more work") { processed.call > past }
      { "Processed" => (processed.call..) }
    end
    browser.press("Live", within: "header")
    see("Held")
    held = nil
    browser.waited("stillness") do # the answer to what was asked before is still drawn
      held = shown.call
      past = processed.call
      live.until_true("more work") { processed.call > past + 60 } # in three seconds or more
      shown.call == held
    end
    browser.press("Held", within: "header")
    browser.waited("newer figures") { shown.call > held }
  ensure
    pusher&.kill&.join
  end

  it "filter and sort the queues of the overview" do
    live.fill(queue, dead: 1)
    open("")
    calm = rows_of("/api/web/dashboard")["queues"].select { |row| row.values_at("dead", "retries").sum.zero? && row["lag"] < 5 }
    names = calm.map { |row| row["name"] }.grep(/\AOrders \d+\z/).sort
    expect(names.size).to be > 1
    shows([queue, *names]) { ids & [queue, *names] }
    browser.type('input[aria-label="Filter queues"]', queue.downcase)
    shows([queue]) { ids }
    browser.choose('select[aria-label="Which queues"]', "stopped")
    see("No queue matches")
    browser.press("Show all queues")
    browser.choose('select[aria-label="Which queues"]', "dead")
    dead = rows_of("/api/web/dashboard")["queues"].select { |row| row["dead"].positive? }
    shows(dead.map { |row| row["name"] }.map { |name| name.is_a?(Hash) ? name["base64"] : name }.sort) { ids.sort } # a hash: the name is no UTF-8
    browser.press("Dead", within: "thead")
    shows(dead.map { |row| row["dead"] }.sort.reverse, "the order by dead") { column("Dead") }
  end

  # ---- filters

  def bound(value)
    browser.waited("a field") do
      browser.value("((value) => { const e = document.querySelector('.bound input'); e.value = value; e.dispatchEvent(new Event('change')); return true })(...arguments)", value)
    end
  end

  # As the page's field for a time wants it.
  def local(seconds) = browser.value("((seconds) => { const d = new Date(seconds * 1000); return new Date(d - d.getTimezoneOffset() * 60000).toISOString().slice(0, 19) })(...arguments)", seconds)

  def api(rest) = rows_of(path + rest).map { |record| record["id"] }

  # All four intervals of an order: by its button, the choice and the value; each must show what the API's own route gives.
  def intervals(button, route, value, given, low, high, word: "")
    browser.press(button, within: ".filters")
    browser.choose(SELECT, "all-asc")
    shows(api("#{word}range_by_#{route}?min=#{low}")) { ids }
    browser.choose(SELECT, "all-desc")
    shows(api("#{word}rev_range_by_#{route}?min=#{low}")) { ids }
    browser.choose(SELECT, "from-asc")
    bound(given)
    shows(api("#{word}range_by_#{route}?min=#{value}&max=#{high}")) { ids }
    browser.choose(SELECT, "from-desc")
    bound(given)
    shows(api("#{word}rev_range_by_#{route}?min=#{low}&max=#{value}")) { ids }
  end

  def scheduled_ids = browser.value("[...document.querySelectorAll('main tr.row td.main')].map((cell) => cell.innerText.trim())")

  it "R-WEB-18: list scheduled payloads by time, of one id and page by page, and keep that in the address" do
    names = (1..120).map { |n| format("s-%03d", n) } + (["one"] * 10)
    live[queue].perform_async(names.map.with_index { |id, n| { id: id, payload: n, deliver_in: 10_000 + n } })
    open("scheduled", queue: queue)
    shows(names.first(100)) { scheduled_ids }
    browser.press("Next", within: ".pages")
    shows(names.last(30)) { scheduled_ids }
    browser.visit(browser.value("location.href"))
    shows(names.last(30)) { scheduled_ids }
    browser.press("Previous", within: ".pages")
    shows(names.first(100)) { scheduled_ids }
    browser.choose(SELECT, "all-desc")
    shows(names.reverse.first(100)) { scheduled_ids }
    browser.type("input[name=id]", "one\uE007")
    shows(names.last(10)) { scheduled_ids }
    expect(browser.value("location.search")).to include("id=one", "order=desc")
    bounds = rows_of("/api/web/#{ERB::Util.url_encode(queue)}/range_by_deliver_at?id=one").map { |row| row["deliver_at"] }
    open("scheduled", queue: queue, order: "asc", from: bounds[4].ceil)
    shows(["one"] * 5) { scheduled_ids }
    open("id", queue: queue, id: "one")
    shows(["one"] * 10) { scheduled_ids }
  end

  it "R-WEB-7: filter what waits by id, time and retries, each in four intervals" do
    order = [5, 2, 8, 1, 9, 3]
    live[queue].perform_async(order.map { |n| { id: "w-#{n}", payload: n, delay: 3600 + 10 * n } })
    live[queue].perform_async([4, 7, 6].map { |n| { id: "r-#{n}", payload: n, delay: 7200 - 10 * n, retry_count: n - 3 } })
    expect(api("range_by_perform_in").size).to eq(9)
    open("enqueued", queue: queue)
    middle = rows_of("#{path}range_by_perform_in")[4]["perform_in"].ceil
    intervals("Id", "id", Site.encode("[w-2"), "w-2", Site.encode("-"), Site.encode("+"))
    intervals("Due", "perform_in", middle, local(middle), "-inf", "%2Binf")
    intervals("Retries", "retry_count", 3, 3, 0, "%2Binf")
    expect(ids).to eq(%w[r-6 r-4])
    browser.press("Id", within: ".filters")
    browser.type('input[name="prefix"]', "w-")
    browser.keys("\uE007")
    shows(order.sort.map { |n| "w-#{n}" }) { ids.sort }
    open("queue", name: queue)
    browser.press("Fresh", within: ".strip")
    shows(api("range_by_perform_in").grep(/w/)) { ids }
    expect(browser.value("document.querySelector(arguments[0]).value", SELECT)).to eq("from-desc")
    browser.press("Queue", within: ".tabs")
    browser.press("Retries", within: ".strip")
    shows(%w[r-4 r-6 r-7]) { ids }
  end

  context "of the dead" do
    let(:queue) { Dead.queue }

    it "R-WEB-7: filter the dead by id and time, each in four intervals" do
      open("dead", queue: queue)
      shows(%w[d-1 d-3 d-2]) { ids }
      middle = rows_of("#{path}morgue_range_by_updated_at")[1]["updated_at"].floor
      intervals("Id", "id", Site.encode("[d-2"), "d-2", Site.encode("-"), Site.encode("+"), word: "morgue_")
      intervals("Died", "updated_at", middle, local(middle), "-inf", "%2Binf", word: "morgue_")
    end
  end

  it "turn page by page through more than a hundred" do
    live[queue].perform_async(Array.new(230) { |n| { id: format("p-%03d", n), payload: n, delay: 3600 + n } })
    all = Array.new(230) { |n| format("p-%03d", n) }
    open("enqueued", queue: queue)
    shows(all.first(100)) { ids }
    see("1 to 100 of 230")
    browser.press("Next")
    shows(all[100, 100]) { ids }
    browser.press("Next")
    shows(all.last(30)) { ids }
    browser.press("Previous")
    shows(all[100, 100]) { ids }
    browser.press("Next")
    shows(all.last(30)) { ids }
    browser.press("First")
    shows(all.first(100)) { ids }
  end

  it "show errors where something failed, and what retries failed with" do
    live.fill(queue, later: 1, parked: 1)
    columns = -> { browser.texts("main thead th").map(&:strip).reject(&:empty?) }
    %w[enqueued parked].each do |page|
      open(page, queue: queue)
      shows(1) { ids.size }
      expect(columns.call).not_to include("Error")
      expect(browser.there?(".pages button")).to be(false)
    end
    expect(browser.texts(".filters .choice button")).to eq(%w[Parked Id])
    open("enqueued", queue: queue)
    live[queue].perform_async(%w[x y].map { |id| { id: id, payload: { fail: "out of ink" } } })
    live.until_true("both failed") { live[queue].metrics[:retries] == 2 }
    browser.waited("the column") { columns.call.include?("Error") }
    see("Retries by error")
    groups = rows_of("#{Site.queue(queue, "errors")}?part=retrying")["groups"]
    expect(groups.map { |group| group["count"] }).to eq([2])
    shows([["2", "out of ink"]]) { browser.texts("li.group").map { |text| text.lines(chomp: true).reject(&:empty?).first(2) } }
    expect(browser.texts("li.group button").map(&:strip)).to eq(["Retry these now", "Kill these"])
  end

  # ---- the rest

  it "show why an id runs or does not, and what is stored of it" do
    live.fill(queue, later: 1, retrying: 1, dead: 1, running: 1)
    live[queue].perform_async([{ id: "busy-001", payload: { behind: 1 }, context: { "by" => "Ada" } }])
    %w[later-001 failing-001 gone-001 busy-001].each do |id|
      answer = rows_of("#{Site.queue(queue, "id")}?id=#{id}")
      open("id", queue: queue, id: id)
      shows(answer["text"].downcase.sub(/\d+\.\d s/, "TIME").gsub(/\d+/, "N")) do
        browser.text(".sentence").to_s.downcase.delete_suffix(".").sub(/\b(\d+ m )?\d+ m?s\b/, "TIME").gsub(/\d+/, "N")
      end
      records = %w[job behind dead].filter_map { |name| answer[name] }.select { |record| record["state"] != "unknown" }
      texts = browser.texts(".payloads pre:not(.context)")
      expect(texts.map { |text| text.gsub(/\s/, "") }).to eq(records.flat_map { |record| record["payloads"].map { |text, *| text.gsub(/\s/, "") } })
      expect(browser.text("h1")).to eq(id)
      expect(browser.page_text).to include(answer["cli"])
      records.each { |record| expect(browser.page_text).to include(record["error"]) if record["error"] }
    end
    expect(browser.page_text).to include("Ada", "Behind the run")
    open("id", queue: queue, id: "failing-001")
    shows(["pushed", "claimed", "failed"]) { browser.texts(".history .event") }
    expect(browser.texts(".history .error-text")).to eq([rows_of("#{Site.queue(queue, "id")}?id=failing-001")["job"]["error"]])
    open("id", queue: queue, id: "none")
    see("Nothing is stored of it")
  end

  it "count in an id's history the payloads that checkpoints ended" do
    live.use
    pulled = Application.worker("Pulled of #{queue}") # which no server serves
    pulled.perform_async(Array.new(4) { |n| { id: "a", payload: n } })
    delivery = Seriatim.pop([pulled], wait: 0)
    [1, 3].each { |count| delivery.checkpoint(count) }
    delivery.release
    open("id", queue: "Pulled of #{queue}", id: "a")
    shows(["1 payload", "2 payloads"]) { browser.texts(".history .aside").grep(/payload/) }
  end

  it "show what runs, by node and queue, and who works" do
    live.fill(queue, running: 2)
    open("running")
    mine = -> { browser.texts("main tr.row").grep(/#{queue}/) }
    browser.waited("two runs") { mine.call.size == 2 }
    browser.press("By queue")
    browser.waited("the group") { browser.texts("main h3").any? { |text| text.start_with?(queue) } }
    browser.press("By node")
    node = rows_of("/api/v1/nodes")["nodes"].first
    browser.waited("the group") { browser.texts("main h3").any? { |text| text.start_with?(node["name"]) } }
    browser.press("Nodes")
    see(node["description"])
    expect(cell(node["name"], "Shards").to_i).to eq(node["shards"])
    owner = rows_of("/api/v1/running")["running"].find { |run| run["queue"] == queue }["owner"]
    encoded = ERB::Util.url_encode(owner)
    browser.click(%(main a[href*="running?node=#{encoded}"]))
    browser.waited("its runs") { browser.text("h1") == "Running on #{owner}" && mine.call.size == 2 }
    expect(rows_of("/api/v1/running?node=#{encoded}")["running"].map { |run| run["owner"] }.uniq).to eq([owner])
    open("running", node: "another node")
    see("This node has no job right now.")
    open("running", queue: queue)
    shows(%w[busy-001 busy-002]) { ids.sort }
    open("queue", name: queue)
    see("2 of 2 have a living owner")
    expect(browser.texts(".tile").size).to eq(2)
  end

  it "show what a node's process holds and how wrong its clock is" do
    told = -> { rows_of("/api/v1/nodes")["nodes"].find { |each| each["rss"] } }
    node = browser.waited("a heartbeat that is answered soon") { told.call.then { |each| each if each && each["clock_skew"].abs < 0.9 } }
    expect(node["rss"]).to be_between(1_000_000, 10_000_000_000)
    live.redis.call("ZADD", "seriatim:{/nodes}:alive", ((Time.now.to_f + 3600) * 1000).to_i, "off #{queue}")
    { "b;rss=52428800;skew_ms=-2500|host" => ["50 MiB", "−3 s"], "b;skew_ms=900|host" => ["", "+900 ms"], "b|host" => ["", ""] }.each do |info, cells|
      live.redis.call("HSET", "seriatim:{/nodes}:info", "off #{queue}", info)
      open("nodes")
      browser.waited(cells) { %w[Memory Clock].map { |label| cell("off #{queue}", label) } == cells }
      expect(cell(node["name"], "Memory")).to match(/ MiB\z/)
      warned = browser.page_text.include?("The clock of 1 node is more than a second off Redis': off #{queue}.")
      expect(warned).to be(cells.last == "−3 s")
    end
  ensure
    live.redis.call("ZREM", "seriatim:{/nodes}:alive", "off #{queue}")
    live.redis.call("HDEL", "seriatim:{/nodes}:info", "off #{queue}")
  end

  it "find an id at once, and a beginning in the queue that is asked" do
    live.fill(queue, later: 3, dead: 1)
    live[queue].perform_async([{ id: "only in #{queue}", payload: 1, delay: 3600 }])
    open("")
    browser.waited("the field") { browser.there?("#search") }
    browser.keys("/")
    browser.type("#search", "only in #{queue}")
    browser.keys("\uE007")
    shows([["only in #{queue}", queue, "Delayed"]]) { browser.value("[...document.querySelectorAll('main tr.row')].map((r) => [...r.cells].map((c) => c.innerText.trim()))") }
    open("search", q: "later-", queue: queue)
    shows(%w[later-001 later-002 later-003]) { browser.texts(".ids li") }
    live[queue].perform_async([{ id: "planned in #{queue}", payload: 1, deliver_in: 3600 }])
    open("search", q: "planned in #{queue}")
    shows([["planned in #{queue}", queue, "Scheduled"]]) { browser.value("[...document.querySelectorAll('main tr.row')].map((r) => [...r.cells].map((c) => c.innerText.trim()))") }
    open("search", q: "there is none of this")
    see("No queue holds this id")
  end

  it "draw the history that the API has" do
    open("queue", name: "Live")
    browser.press("15 min")
    browser.waited("lines") { browser.value("[...document.querySelectorAll('path.line')].some((e) => e.getAttribute('d'))") }
    expect(rows_of("/api/v1/history?queue=Live&span=15m")["points"].compact).not_to be_empty
    %w[1\ h 1\ d 7\ d Live].each { |span| browser.press(span, within: ".choice") }
  end

  it "begin the live chart with what the history says of the time before" do
    open("queue", name: queue)
    now = live.redis.call("TIME").first.to_i / 10
    (2..8).each do |ago|
      step = now - ago
      live.redis.call("SETRANGE", "seriatim:{#{queue.gsub(/[^\w.:-]/) { |c| format("%%%02X", c.ord) }}}:history", 32 + 20 * (step % 360), [step, 100, 0, 50, 7.0].pack("V4e"))
    end
    open("queue", name: queue)
    points = -> { browser.value("(document.querySelector('path.line.processed')?.getAttribute('d') || '').split('L').length") }
    browser.waited("a line") { points.call > 1 }
    expect(points.call).to be > 20 # an answer every two seconds makes one place
  end

  it "show how many payloads a run had" do
    fact = -> { browser.text("dl div[title^='Payloads pushed'] dd") }
    open("queue", name: queue)
    browser.waited("nothing to tell") { fact.call == "–" }
    now = live.redis.call("TIME").first.to_i / 10
    [[now - 1, 4, 1, 10, 0.0], [now, 2, 0, 5, 0.0]].each do |step|
      live.redis.call("SETRANGE", "seriatim:{#{queue.gsub(/[^\w.:-]/) { |c| format("%%%02X", c.ord) }}}:history", 32 + 20 * (step[0] % 360), step.pack("V4e"))
    end
    open("queue", name: queue)
    browser.waited("15 for 6") { fact.call == "2.5" }
  end

  it "say so when there is no such page or queue" do
    open("nonsense/page")
    see("There is no such page")
    open("queue", name: "no such queue")
    see("Nothing of that name")
    browser.press("To the overview")
    browser.waited("rows") { browser.there?("tr.row") }
  end
end

# Beside each other, as it takes seconds until a mount gives an answer up.
RSpec.describe "the pages of all mounts" do
  it "say so when Redis does not answer, and go on afterwards" do
    windows = House::MOUNTS.keys.to_h do |name|
      window = browser.new_window
      browser.visit(House.mount(name).site.page(""))
      browser.waited("rows") { browser.there?("tr.row") }
      [name, window]
    end
    in_each = lambda do |what, &wish|
      windows.each { |name, window| browser.in_window(window) && browser.waited("#{what}, #{name}", &wish) }
    end
    Process.kill(:STOP, live.redis.pid)
    begin
      in_each.call("failure") { browser.there?(".banner") && browser.there?(".pulse.lost") }
    ensure
      Process.kill(:CONT, live.redis.pid)
    end
    in_each.call("end of it") { !browser.there?(".banner") && !browser.there?(".pulse.lost") && browser.there?("tr.row") }
    expect(windows.values.map { |window| browser.in_window(window) && browser.harm }.uniq).to eq([[]])
  ensure
    windows&.each_value { |window| browser.close_window(window) }
  end
end

# It is the browser's own matter, so one mount will do.
RSpec.describe "the hottest ids", mount: House::MOUNTS.keys.first do
  it "are of a sample where one look cannot read all ids, and of all when one has looked further to the end" do
    queue = House.queue
    live[queue].perform_async(Array.new(30) { |n| { id: "hot", payload: n, delay: 3600 } })
    25_000.times.each_slice(1000) { |some| live[queue].perform_async(some.map { |n| { id: "cold-#{n}", payload: n, delay: 3600 } }) }
    heads = -> { browser.value("[...document.querySelectorAll('h2')].map((head) => head.textContent)") }
    open("queue", name: queue)
    see("Of a sample of all shards, another one at each look")
    expect(heads.call).to include("Hottest ids of a sample", "How long ids have waited, of a sample")
    browser.waited("the end of all ids", seconds: 300) do # each look reads for a tenth of a second: the slower the machine, the more looks
      more = browser.value("[...document.querySelectorAll('main button')].some((one) => one.textContent === 'Look further' && !one.disabled)")
      browser.press("Look further", within: "main") if more
      heads.call.include?("Hottest ids")
    end
    expect(cell("hot", "Payloads")).to eq("30")
    see("ids read one after another. Some may have run since.")
    expect(browser.harm).to eq([])
  end
end
