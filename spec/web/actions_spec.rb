# frozen_string_literal: true

require_relative "spec_helper"

BUTTONS = ["Perform retries now", "Perform all now", "Kill all failed", "Delete all failed", "Perform now", "Park", "Delete"].freeze

# Every action of the pages: what asks first, what it says, what it did; and who may do it. The same pages and the same core answer on
# every mount, so each example is on one of them at a time.
each_mount "the actions", of: Mounts::ALL.size do
  let(:queue) { House.queue }
  let(:actions) { live[queue].actions }

  after { browser.forget_cookies }
  after { |example| expect(browser.harm).to eq([]) unless example.exception }

  # The reader has this role from the next page on; nil: what a visitor has. A cookie is set on a page of its origin: here one without an application.
  def become(role)
    browser.visit("#{site.url}livez")
    role ? browser.cookie("role", role) : browser.forget_cookies
  end

  def metrics = live[queue].metrics
  def counts = metrics.values_at(:length, :retries, :parked, :morgue_length)

  # A button that asks first: no answer changes nothing; yes does it, and the page says how many it were.
  def asks(label, title, says, typed: false)
    before = counts
    browser.press(label, within: "main")
    browser.waited("the question") { browser.text("dialog h2") == title }
    expect(counts).to eq(before)
    browser.press("Cancel", within: "dialog")
    browser.waited("the end of the question") { !browser.there?("dialog") }
    expect(counts).to eq(before)
    browser.press(label, within: "main")
    if typed
      browser.waited("a closed button") { browser.value("document.querySelector('dialog [type=submit]')?.disabled") }
      browser.type("dialog input", queue)
    end
    browser.click("dialog [type=submit]:not([disabled])")
    shows(says) { told }
  end

  it "R-WEB-8: perform, kill and delete what waits or failed: ask first, then say the real count" do
    live.fill(queue, later: 2, retrying: 3)
    actions.pause
    open("enqueued", queue: queue)
    asks("Perform all now", "Perform all now?", "5 ids are due now.")
    expect(metrics[:lag]).to be > 0
    asks("Kill all failed", "Kill all failed jobs?", "3 ids killed.", typed: true)
    expect(counts).to eq([2, 0, 0, 3])
    live[queue].perform_async([{ id: "again", payload: 1, retry_count: 1 }])
    browser.waited("the new one") { ids.include?("again") }
    asks("Delete all failed", "Delete all failed jobs?", "1 id deleted.", typed: true)
    expect(counts).to eq([2, 0, 0, 3])
  end

  it "R-WEB-19: remove and reschedule scheduled payloads, on their page and on the id's" do
    first, second = live[queue].perform_async([{ id: "a", payload: "x", deliver_in: 1000 }, { id: "b", payload: "y", deliver_in: 2000 }]).handles
    open("scheduled", queue: queue)
    browser.press("Remove", within: row(first))
    browser.waited("the question") { browser.text("dialog h2") == "Remove this payload?" }
    browser.press("Cancel", within: "dialog")
    expect(metrics[:scheduled]).to eq(2)
    browser.press("Remove", within: row(first))
    browser.click("dialog [type=submit]")
    shows("Payload removed.") { told }
    expect(live[queue].queries.range_by_deliver_at("-inf", "+inf").map { |payload| payload[:id] }).to eq(["b"])
    browser.press("Reschedule", within: row(second))
    browser.waited("a field") { browser.value("(() => { const e = document.querySelector('dialog input'); e.value = '2040-01-01T00:00:00'; e.dispatchEvent(new Event('input')); return true })()") }
    browser.click("dialog [type=submit]")
    shows("Payload rescheduled.") { told }
    expect(live[queue].queries.range_by_deliver_at("-inf", "+inf").map { |payload| payload[:deliver_at] }).to match([be_within(86_400).of(Time.utc(2040).to_i)])
    open("id", queue: queue, id: "b")
    browser.press("Remove", within: row(second))
    browser.click("dialog [type=submit]")
    see("Nothing is stored of it")
    expect(metrics[:scheduled]).to eq(0)
  end

  it "R-WEB-19: say why a payload was not rescheduled" do
    handle = live[queue].perform_async([{ id: "a", payload: "x", deliver_in: 1000 }]).handles.first
    open("scheduled", queue: queue)
    browser.press("Reschedule", within: row(handle))
    browser.waited("a field") { browser.there?("dialog input") }
    live[queue].actions.cancel(handle)
    browser.click("dialog [type=submit]")
    shows("Nothing changed: the payload is being delivered, was delivered or is gone, or its id is parked or waits after a run that was not done.") { told }
  end

  it "R-WEB-8: queue up and delete the dead, one, some and all" do
    live.fill(queue, dead: 7)
    actions.pause
    open("dead", queue: queue)
    browser.press("Queue up", within: row("gone-001"))
    shows("1 id queued up.") { told }
    expect(counts).to eq([1, 0, 0, 6])
    browser.press("Delete", within: row("gone-002"))
    browser.waited("the question") { browser.text("dialog h2") == "Delete this dead id?" }
    expect(browser.text("dialog")).to include("gone-002")
    browser.click("dialog [type=submit]")
    shows("1 id deleted.") { told }
    %w[gone-003 gone-004].each { |id| browser.click(%(#{row(id)} input[type="checkbox"])) }
    see("2 selected")
    browser.press("Queue up", within: ".chosen")
    browser.click("dialog [type=submit]")
    shows("2 ids queued up.") { told }
    expect(counts).to eq([3, 0, 0, 3])
    asks("Queue up all", "Queue up all the dead?", "3 ids queued up.") # other than the last message, which may still be shown
    expect(counts).to eq([6, 0, 0, 0])
    live[queue].queries.range_by_id("-", "+") && actions.delete(%w[gone-001])
    see("Nothing is dead")
  end

  it "R-WEB-8: delete all the dead, and act on those of one error" do
    live.fill(queue, dead: 3)
    live[queue].perform_async(%w[x y].map { |id| { id: id, payload: { fail: "out of paper" }, retry_count: 2 } })
    live.until_true("5 dead") { metrics[:morgue_length] == 5 }
    actions.pause
    open("dead", queue: queue)
    group = ->(text) { "li.group:nth-child(#{browser.texts("li.group .error-line").index { |line| line.include?(text) } + 1})" }
    browser.waited("two groups") { browser.texts("li.group").size == 2 }
    browser.press("Retry one first", within: group["paper"])
    shows("1 id queued up.") { told }
    see("goes first. This page watches what becomes of it.")
    actions.resume
    browser.waited("it failed again or died again") { browser.there?(".trial.failed") }
    actions.pause
    asks_group = lambda do |label, text, title, says, typed: false|
      browser.waited("the group") { browser.texts("li.group .error-line").any? { |line| line.include?(text) } }
      browser.press(label, within: group[text])
      browser.waited(title) { browser.text("dialog h2") == title }
      browser.type("dialog input", queue) if typed
      browser.click("dialog [type=submit]:not([disabled])")
      shows(says) { told }
    end
    asks_group["Queue up all of these", "account", "Queue up 3 ids?", "3 ids queued up."]
    left = metrics[:morgue_length]
    asks("Delete all", "Delete all the dead?", left == 1 ? "1 id deleted." : "#{left} ids deleted.", typed: true)
    expect(metrics[:morgue_length]).to eq(0)
  end

  it "say of a dead id that went first that it is parked or gone, not that it failed again or went through" do
    live[queue].perform_async([1, 2].map { |n| { id: "x", payload: { n: n, fail: "out of paper" }, retry_count: 2 } })
    live.until_true("one payload dead, one that failed") { metrics.values_at(:morgue_length, :retries) == [1, 1] }
    actions.park(["x"])
    actions.pause
    open("dead", queue: queue)
    browser.press("Retry one first", within: "li.group")
    see("is parked: it runs when somebody unparks it.")
    expect(browser.there?(".trial.failed")).to be(false)
    actions.unpark(["x"])
    see("goes first. This page watches what becomes of it.")
    actions.delete(["x"])
    see("is gone: done, dropped or deleted.")
    expect(actions.check[:findings]).to eq([])
  end

  context "where on_exhausted is park" do
    let(:queue) { Application::PARKING }

    it "say of a dead id that went first that it failed again, also when it is parked for it" do
      live[queue].perform_async([{ id: "x", payload: { fail: "out of paper" } }])
      live.until_true("a failure") { metrics[:retries] == 1 }
      actions.kill(["x"])
      actions.pause
      open("dead", queue: queue)
      browser.press("Retry one first", within: "li.group")
      see("goes first. This page watches what becomes of it.")
      browser.click("li.group .trial a")
      browser.waited("the id") { browser.text("main h1").start_with?("x") }
      actions.resume
      live.until_true("it is parked") { actions.perform_all_failed_jobs_now && metrics[:parked] == 1 }
      browser.back
      see("failed again.")
      expect(browser.there?(".trial.parked")).to be(false)
      actions.delete(["x"])
      see("is gone: done, dropped or deleted.")
    end
  end

  it "delete the dead of one error" do
    live.fill(queue, dead: 3)
    open("dead", queue: queue)
    asks("Delete these", "Delete 3 ids?", "3 ids deleted.", typed: true)
    expect(metrics[:morgue_length]).to eq(0)
  end

  # On a busy machine an answer may take longer than the dashboard waits for Redis: then it is asked for again, for at most a minute.
  def status_at_last(path)
    give_up = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
    loop do
      status = site.get(path).status
      return status if status != 503 || Process.clock_gettime(Process::CLOCK_MONOTONIC) > give_up
    end
  end

  # Each holds a connection until its end. Were the probe to wait for one of them, it would be answered after it.
  it "two long changes hold up neither a probe nor a page", :host do
    beside = Array.new(5).each_index.lazy.map do |attempt| # on a busy machine the changes may end before the probe is asked
      40.times { |n| live[queue].perform_async(Array.new(1000) { |i| { id: "#{attempt}-#{n}-#{i}", payload: 1, delay: 3600 } }) }
      actions.pause
      counts = []
      changes = Array.new(2) { Thread.new { counts << site.post(Site.worker(queue, "perform_all_jobs_now")).json["count"] } }
      sleep 0.1
      answered = %w[/readyz /metrics /api/v1/stats].map { |path| [status_at_last(path), changes.count(&:alive?)] }
      expect(answered.map(&:first)).to eq([200] * 3)
      changes.each(&:join)
      expect(counts.sum).to eq(40_000)
      answered.first.last # the pages ask Redis much more, which on a busy machine may take longer than the changes
    end
    expect(beside.any?(2)).to be(true)
  end

  it "perform the retries now, of all and of one error, and kill those of one error; delayed jobs stay delayed" do
    live.fill(queue, later: 2, retrying: 3)
    actions.pause
    open("enqueued", queue: queue)
    browser.waited("the group above the rows") { browser.value("document.querySelector('li.group')?.getBoundingClientRect().top < document.querySelector('tr.row')?.getBoundingClientRect().top") }
    asks("Retry these now", "Retry 3 ids now?", "3 ids are due now.")
    expect(live[queue].queries.range_by_perform_in("-inf", "+inf").map { |r| r[:perform_in] > Time.now.to_f + 600 }).to eq([false] * 3 + [true] * 2)
    asks("Kill these", "Kill 3 ids?", "3 ids killed.", typed: true)
    expect(counts).to eq([2, 0, 0, 3])
  end

  it "an action on many shows how far it is and can be stopped" do
    30.times { |n| live[queue].perform_async(Array.new(1000) { |i| { id: "#{n}-#{i}", payload: 1, delay: 3600 } }) }
    open("enqueued", queue: queue)
    browser.press("Perform all now", within: "main")
    hold_changes
    browser.click("dialog [type=submit]:not([disabled])")
    browser.waited("progress") { browser.text("dialog .message")&.match?(/\A[\d,]+ of about 30,000 done/) }
    browser.press("Stop", within: "dialog")
    let_go
    browser.waited("the end of the dialog") { !browser.there?("dialog") }
    browser.waited("what was done") { told&.match?(/\AStopped\. [\d,]+ ids are due now\./) }
    expect(told[/\A\D+([\d,]+)/, 1].delete(",").to_i).to be_between(1000, 29_000)
    actions.pause
  end

  it "R-WEB-22: move the ids to another number of shards: ask which, say what it costs, show how far it is" do
    live.fill(queue, later: 30)
    field = "(() => { const e = document.querySelector('dialog input'); if (!e || e.value !== '2') return false; e.value = '5'; e.dispatchEvent(new Event('input')); return true })()"
    open("queue", name: queue)
    browser.press("Shards …")
    browser.waited("the question") { browser.text("dialog h2") == "Another number of shards?" }
    expect(browser.text("dialog")).to include("from 2 shards", "a fifth of its time")
    browser.press("Cancel", within: "dialog")
    expect(metrics).to include(resharding: nil)
    browser.press("Shards …")
    browser.waited("a field") { browser.value(field) }
    browser.click("dialog [type=submit]")
    shows("The ids move to 5 shards.") { told }
    live.until_true("they have moved") { metrics[:resharding].nil? && metrics[:shards].size == 5 }
    expect(metrics[:length]).to eq(30)
    see("5 of 5 have a living owner")
  end

  # An id that runs leaves its shard when its run has ended, so the move cannot end before.
  it "R-WEB-22: the bar of a move that waits for a run says how far it is, and goes when the run and the move have ended" do
    gate = File.join(live.redis.folder, "gate of the move of #{queue}")
    held = (0..).lazy.map { |n| "held-#{n}" }.find { |id| Zlib.crc32(id) % 5 > 1 }
    live.fill(queue, later: 30)
    live[queue].perform_async([{ id: held, payload: { wait: gate } }])
    live.until_true("the run") { metrics[:busy] == 1 }
    expect(live[queue].actions.reshard(5)).to eq(1)
    live.until_true("only the run is left") { metrics[:resharding]&.fetch(:ids_moved)&.positive? }
    open("queue", name: queue)
    see("Ids move from 2 to 5 shards")
    browser.waited("a part of the bar") { browser.value("document.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow')").to_i.between?(1, 99) }
    expect(metrics[:busy]).to eq(1)
    FileUtils.touch(gate)
    browser.waited("the end of the bar") { !browser.there?("[role=progressbar]") }
    see("5 of 5 have a living owner")
    expect(metrics).to include(resharding: nil, length: 30)
  end

  it "pause and resume a queue, park and unpark ids, delete what is selected" do
    live.fill(queue, later: 4)
    open("queue", name: queue)
    browser.press("Pause")
    browser.waited("the question") { browser.text("dialog h2") == "Pause this queue?" }
    expect(metrics[:paused]).to eq(0)
    browser.click("dialog [type=submit]")
    shows("2 shards paused.") { told }
    expect(metrics[:paused]).to eq(2)
    browser.press("Resume")
    shows("2 shards resumed.") { told }
    expect(metrics[:paused]).to eq(0)
    browser.click('.tabs a[href*="enqueued"]')
    browser.click(%(#{row("later-001")} input[type="checkbox"]))
    browser.press("Park", within: ".chosen")
    shows("1 id parked.") { told }
    browser.click('.tabs a[href*="parked"]')
    browser.press("Unpark", within: row("later-001"))
    shows("1 id unparked.") { told }
    expect(metrics[:parked]).to eq(0)
    live.until_true("it runs, as it is due") { metrics[:length] == 3 }
    browser.click('.tabs a[href*="enqueued"]')
    %w[later-002 later-003].each { |id| browser.click(%(#{row(id)} input[type="checkbox"])) }
    browser.press("Delete", within: ".chosen")
    browser.waited("the question") { browser.text("dialog h2") == "Delete 2 ids?" }
    browser.type("dialog input", queue)
    browser.click("dialog [type=submit]:not([disabled])")
    shows("2 ids deleted.") { told }
    expect(metrics[:length]).to eq(1)
  end

  # Changes are carried out as they are asked for, but the page gets no answer to any from the given one on.
  def lose_answers(from: 1)
    browser.value("(() => { const ask = window.fetch; let asked = 0; window.fetch = async (url, options) => { const answer = await ask(url, options); " \
                  "if (options?.method === 'POST' && ++asked >= arguments[0]) throw new TypeError('no answer came'); return answer; }; })()", from)
  end

  it "say of one that is done without a question, and is not answered, that it may have happened" do
    live.fill(queue, dead: 1)
    actions.pause
    open("dead", queue: queue)
    browser.waited("the dead") { browser.there?(row("gone-001")) }
    lose_answers
    browser.press("Queue up", within: row("gone-001"))
    shows("No answer, so it may or may not have happened: no answer came") { told }
    expect(counts).to eq([1, 0, 0, 0])
  end

  it "on ids of several queues say how many were done before one of the queues failed" do
    queues = [queue, House.queue]
    queues.each { |name| live.fill(name, running: 1) }
    open("running")
    queues.each { |name| browser.click(%(tr[data-key="t#{name} tbusy-001"] input)) }
    lose_answers(from: 2)
    browser.press("Park after the run", within: ".chosen")
    browser.click("dialog [type=submit]")
    browser.waited("why") { browser.there?("dialog [role=alert]") }
    expect(browser.text("dialog [role=alert]")).to eq("1 done so far. No answer, so it may or may not have happened: no answer came")
  end

  # What the page asks from now on, and when it has read an answer: from there on to what it does about it no timer comes between.
  def note_questions
    browser.value(<<~JS)
      (() => {
        const ask = window.fetch;
        window.asked = [];
        window.fetch = async (url, options) => {
          const question = `${options.method ?? "GET"} ${url.split("?")[0].split("/").at(-1)}`;
          window.asked.push(question);
          const answer = await ask(url, options);
          const read = answer.json.bind(answer);
          answer.json = async () => {
            const body = await read();
            window.asked.push(`answer to ${question}`);
            return body;
          };
          return answer;
        };
      })()
    JS
  end

  # A long list by id is asked for every ten seconds only, but at once after an action of its reader.
  it "show at once what they did in a list of more than 10,000 ids" do
    11.times { |n| live[queue].perform_async(Array.new(1000) { |i| { id: format("%02d-%03d", n, i), payload: 1, delay: 3600 } }) }
    open("enqueued", queue: queue, by: "id")
    note_questions
    first = browser.waited("a row") { ids.first } # of those that were read in time, which on a slow machine are not all
    browser.click(%(#{row(first)} input[type="checkbox"]))
    browser.press("Park", within: ".chosen")
    shows("1 id parked.") { told }
    figures = "GET #{Site.encode(queue)}" # with which each refresh begins
    asked = -> { browser.value("window.asked").drop_while { |line| line != "answer to POST park" } }
    browser.waited("two refreshes") { asked.call.count(figures) > 1 }
    expect(asked.call.slice_before(figures).to_a[1]).to include("GET records")
    expect(ids).not_to include(first)
  end

  it "act on the page of an id" do
    live.fill(queue, later: 1, dead: 2)
    actions.pause
    open("id", queue: queue, id: "later-001")
    browser.press("Park")
    shows("1 id parked.") { told }
    expect(metrics[:parked]).to eq(1)
    browser.press("Unpark")
    shows("1 id unparked.") { told }
    browser.press("Delete")
    browser.waited("the question") { browser.text("dialog h2") == "Delete this id?" }
    browser.click("dialog [type=submit]")
    shows("1 id deleted.") { told }
    expect(counts).to eq([0, 0, 0, 2])
    open("id", queue: queue, id: "gone-001")
    browser.press("Queue up")
    shows("1 id queued up.") { told }
    open("id", queue: queue, id: "gone-002")
    browser.press("Delete")
    browser.click("dialog [type=submit]")
    shows("1 id deleted.") { told }
    expect(counts).to eq([1, 0, 0, 0])
  end

  it "drop one payload of an id: what waits, what waits behind its run, what is dead; not what runs" do
    live.fill(queue, dead: 1)
    actions.pause
    live[queue].perform_async([1, 2, 3].map { |n| { id: "order", payload: { n: n, text: "x" * n * 2500 }, delay: 3600 } })
    drops = lambda do |shown, says, place, of|
      payload = ".payloads li:has(.danger-text):nth-child(#{place})"
      browser.waited("the #{of} payloads that are left") { browser.texts(".payloads li:has(.danger-text)").size == of }
      before = counts
      2.times do |yes|
        browser.press("Drop", within: payload)
        browser.waited("the question") { browser.text("dialog h2") == "Drop this payload?" }
        expect(browser.text("dialog")).to include(shown, says)
        expect(counts).to eq(before)
        browser.press("Cancel", within: "dialog") if yes.zero?
        browser.waited("the end of the question") { !browser.there?("dialog") } if yes.zero?
      end
      browser.click("dialog [type=submit]")
      browser.waited("the answer") { !browser.there?("dialog") }
      shows("1 payload dropped.") { told }
    end
    numbers = -> { live[queue].queries.fetch(["order"]).flat_map { |record| record[:payloads].map { |payload, _| payload["n"] } } }
    open("id", queue: queue, id: "order")
    drops["\"n\":2", "the others stay", 2, 3] # which is shown cut
    expect(numbers.call).to eq([1, 3])
    drops["\"n\":1", "the others stay", 1, 2]
    drops["\"n\":3", "It is the only payload of order", 1, 1]
    see("Nothing is stored of it")
    expect(counts).to eq([0, 0, 0, 1])
    open("id", queue: queue, id: "gone-001")
    drops["account", "It is the only payload of gone-001", 1, 1]
    expect(counts).to eq([0, 0, 0, 0])

    gate = File.join(live.redis.folder, "gate of #{queue}")
    actions.resume
    live[queue].perform_async([{ id: "busy", payload: { wait: gate } }])
    live.until_true("the run") { metrics[:busy] == 1 }
    live[queue].perform_async([{ id: "busy", payload: "behind" }])
    open("id", queue: queue, id: "busy")
    see("Behind the run")
    shows(['"behind"']) { browser.texts(".payloads li:has(.danger-text) pre") }
    drops["behind", "It is the only payload of busy", 1, 1]
    browser.waited("the run alone") { browser.texts(".payloads li").size == 1 }
    expect([metrics[:busy], browser.there?(".payloads .danger-text")]).to eq([1, false])
    FileUtils.touch(gate)
    live.until_true("the end of the run") { metrics[:busy].zero? }
    expect(counts).to eq([0, 0, 0, 0])
    expect(actions.check[:findings]).to eq([])
  end

  it "say that a payload was gone before it was dropped, and let admins alone drop" do
    live.fill(queue, later: 1)
    open("id", queue: queue, id: "later-001")
    browser.press("Drop")
    browser.waited("the question") { browser.text("dialog h2") == "Drop this payload?" }
    actions.delete(["later-001"])
    browser.click("dialog [type=submit]")
    shows("No payload dropped: it runs by now, is gone, or has another score.") { told }
    live[queue].perform_async([{ id: "other", payload: 1, delay: 3600 }])
    seen = lambda do |role, on|
      become(role)
      open("id", queue: queue, id: "other", on: on)
      browser.waited("the payload") { browser.there?(".payloads li") }
      browser.texts(".payloads .danger-text").map(&:strip)
    end
    expect(seen[nil, site]).to eq(["Drop"])
    expect(seen["operator", site]).to eq([])
    expect(seen["viewer", site]).to eq([])
    expect(seen[nil, site(:read_only)]).to eq([])
  end

  it "perform ids now, and unpark all" do
    live.fill(queue, later: 5, parked: 2)
    actions.pause
    open("parked", queue: queue)
    asks("Unpark all", "Unpark all?", "2 ids unparked.")
    expect(counts).to eq([7, 0, 0, 0])
    open("enqueued", queue: queue)
    later = live[queue].queries.range_by_perform_in(Time.now.to_f + 60, "+inf").map { |record| record[:id] }
    later.first(2).each { |id| browser.click(%(#{row(id)} input[type="checkbox"])) }
    browser.press("Perform now", within: ".chosen")
    browser.waited("the question") { browser.text("dialog h2") == "Perform 2 ids now?" }
    browser.click("dialog [type=submit]")
    shows("2 ids are due now.") { told }
    open("id", queue: queue, id: later[2])
    browser.press("Perform now")
    shows("1 id is due now.") { told }
    expect(rows_of(Site.queue(queue)).dig("totals", "delayed")).to eq(2)
  end

  it "park and delete what runs: say what becomes of it, and do so when the run is over" do
    gate = File.join(live.redis.folder, "gate of #{queue}")
    live[queue].perform_async(%w[a b c].map { |id| { id: id, payload: { wait: gate, fail: "no ink" } } })
    live.until_true("3 runs") { metrics[:busy] == 3 }
    live[queue].perform_async([{ id: "b", payload: 2, delay: 3600 }])
    open("running")
    running = ->(id) { %(tr[data-key="t#{queue} t#{id}"]) }
    choose = lambda do |id, label, title, says, told_then|
      browser.waited("the run") { browser.there?(running[id]) }
      browser.click("#{running[id]} input")
      browser.press(label, within: ".chosen")
      browser.waited(title) { browser.text("dialog h2") == title }
      expect(browser.text("dialog")).to include("The run of #{id} goes on to its end", says)
      before = counts
      browser.press("Cancel", within: "dialog")
      browser.waited("the end of the question") { !browser.there?("dialog") }
      expect(counts).to eq(before)
      browser.press(label, within: ".chosen")
      browser.click("dialog [type=submit]")
      shows(told_then) { told }
    end
    choose["a", "Park after the run", "Park this id after its run?", "is parked", "1 id will be parked."]
    choose["b", "Delete", "Delete this running id?", "if it fails it is not tried again", "1 id deleted; its run goes on."]
    expect([metrics[:busy], counts]).to eq([3, [0, 0, 0, 0]])
    open("id", queue: queue, id: "c")
    browser.waited("what can be done") { browser.texts("main button").map(&:strip) & ["Park after the run", "Park", "Delete"] == ["Park after the run", "Delete"] }
    open("running", queue: queue)
    browser.click("th input")
    browser.press("Delete", within: ".chosen")
    browser.waited("the question") { browser.text("dialog h2") == "Delete 3 running ids?" }
    expect(browser.value("document.querySelector('dialog [type=submit]').disabled")).to be(true)
    browser.press("Cancel", within: "dialog")
    FileUtils.touch(gate)
    live.until_true("the ends of the runs") { metrics[:busy].zero? }
    expect(counts).to eq([1, 1, 1, 0])
    there = %w[parked retrying waiting dead].to_h { |part| [part, rows_of("#{Site.queue(queue, "records")}?part=#{part}")["records"].map { |record| record["id"] }] }
    expect(there).to include("parked" => ["a"], "retrying" => ["c"], "dead" => [])
    expect(there["waiting"]).not_to include("b")
  end

  it "park and delete what waits behind a run: say that the run goes on, of one and of some" do
    live.fill(queue, later: 1, running: 2)
    live[queue].perform_async(%w[busy-001 busy-002].map { |id| { id: id, payload: 2, delay: 3600 } })
    open("enqueued", queue: queue)
    choose = lambda do |*ids, label, title, says|
      browser.waited("the rows") { ids.all? { |id| browser.there?(row(id)) } && !browser.there?("main input:checked") }
      ids.each { |id| browser.click(%(#{row(id)} input[type="checkbox"])) }
      before = counts
      browser.press(label, within: ".chosen")
      browser.waited(title) { browser.text("dialog h2") == title }
      expect(browser.text("dialog")).to include(says)
      expect(counts).to eq(before)
    end
    choose["busy-001", "later-001", "Park", "Park 2 ids?", "1 of them runs: it is parked after its run."]
    browser.press("Cancel", within: "dialog")
    browser.press("Select none", within: ".chosen")
    choose["busy-001", "Park", "Park this id after its run?", "The run of busy-001 goes on to its end."]
    browser.click("dialog [type=submit]")
    shows("1 id will be parked.") { told }
    choose["busy-001", "Delete", "Delete this running id?", "The run of busy-001 goes on to its end, but if it fails it is not tried again."]
    browser.click("dialog [type=submit]")
    shows("1 id deleted; its run goes on.") { told }
    tried = "1 of them runs: its run goes on to its end, but if it fails it is not tried again."
    choose["busy-002", "later-001", "Delete", "Delete 2 ids?", tried]
    browser.type("dialog input", queue)
    browser.click("dialog [type=submit]:not([disabled])")
    shows("2 ids deleted. #{tried}") { told }
    expect([metrics[:busy], counts]).to eq([2, [0, 0, 0, 0]])
  end

  it "quiet and stop a node: ask first, and show its state" do
    spare = live.another("Spare of #{queue}", arguments: ["-t", "1"])
    Application.worker("Spare of #{queue}").perform_async([{ id: 1, payload: { sleep: 900 } }])
    node = nil
    live.until_true("the node") { node = rows_of("/api/v1/nodes")["nodes"].find { |each| each["description"].include?(" pid #{spare.pid} ") && each["busy"] == 1 } }
    name = node.fetch("name")
    order = lambda do |label, title, says|
      browser.press(label, within: row(name))
      browser.waited(title) { browser.text("dialog h2") == title }
      expect(browser.text("dialog")).to include(name)
      browser.press("Cancel", within: "dialog")
      browser.waited("the end of the question") { !browser.there?("dialog") }
      expect(spare.log).not_to include(" #{label.downcase} requested from the dashboard")
      browser.press(label, within: row(name))
      browser.click("dialog [type=submit]")
      shows(says) { told }
    end
    buttons_of = -> { browser.texts("#{row(name)} button").map(&:strip) }
    open("nodes")
    shows("Working") { cell(name, "State") }
    order["Quiet", "Quiet this node?", "#{name} was asked to be quiet."]
    shows("Quiet") { cell(name, "State") }
    shows(["Stop"]) { buttons_of.call }
    order["Stop", "Stop this node?", "#{name} was asked to stop."]
    browser.waited("its end") { !browser.there?(row(name)) }
    expect(spare.wait).to eq(0)
    expect(spare.log).to match(/ quiet requested from the dashboard.* stop requested from the dashboard.* what still ran/m)
    expect(Application.worker("Spare of #{queue}").queries.fetch([1])).to match([include(retry_count: -1)])
  end

  # ---- who may

  def buttons = browser.texts("main button").map(&:strip).uniq & [*BUTTONS, "Queue up all", "Delete all", "Queue up", "Retry one first"]

  it "hide what a role may not do" do
    live.fill(queue, later: 1, retrying: 1, dead: 1)
    seen = lambda do |role, on|
      become(role)
      %w[enqueued dead].flat_map do |page|
        open(page, queue: queue, on: on)
        first = row(page == "dead" ? "gone-001" : "later-001")
        browser.waited("rows") { browser.there?(first) }
        browser.click("#{first} input") if browser.there?("#{first} input")
        browser.waited("the buttons of what is selected") { browser.there?(".chosen") } if browser.there?("#{first} input")
        buttons
      end.uniq
    end
    expect(seen[nil, site]).to match_array([*BUTTONS, "Queue up all", "Delete all", "Queue up", "Retry one first"])
    expect(seen["operator", site]).to match_array(["Perform all now", "Perform retries now", "Perform now", "Park", "Queue up all", "Queue up", "Retry one first"])
    expect(seen["viewer", site]).to eq([])
    expect(browser.text("footer")).to include("You may look")
    expect(seen[nil, site(:read_only)]).to eq([])
    expect(browser.text("footer")).to include("reading only")
  end

  it "hide from a role what it may not ask of a node" do
    name = rows_of("/api/v1/nodes")["nodes"].first.fetch("name")
    seen = lambda do |role, on|
      become(role)
      open("nodes", on: on)
      browser.waited("the node") { browser.there?(row(name)) }
      browser.texts("#{row(name)} button").map(&:strip)
    end
    expect(seen[nil, site]).to eq(%w[Quiet Stop])
    expect(seen["operator", site]).to eq(%w[Quiet])
    expect(seen["viewer", site]).to eq([])
    expect(seen[nil, site(:read_only)]).to eq([])
  end

  it "ask for a token, which may have any characters, and refuse a wrong one", :host do
    live.fill(queue, dead: 1)
    open("dead", queue: queue, on: site(:token))
    browser.waited("the question") { browser.text("dialog h2") == "A token is needed" || browser.there?("dialog input[type=password]") }
    expect(browser.page_text).not_to include("gone-001")
    browser.type("dialog input", "let\u2019s in") # has a character beyond Latin-1; the right one has only one beyond ASCII
    browser.click("dialog [type=submit]")
    browser.waited("no") { browser.there?("dialog .bad") }
    browser.type("dialog input", mount.token)
    browser.click("dialog [type=submit]")
    browser.waited("the dead") { browser.there?(row("gone-001")) }
    browser.press("Queue up", within: row("gone-001"))
    shows("1 id queued up.") { told }
  end

  it "ask for a token again when a wrong one is refused before the page has drawn the end of the question" do
    open("dead", queue: queue, on: site(:token))
    browser.value("sessionStorage.removeItem('seriatim.token') ?? 1") # that another example gave
    browser.reload
    browser.waited("the question") { browser.there?("dialog input[type=password]") }
    browser.value("(() => { const frame = window.requestAnimationFrame; window.requestAnimationFrame = (draw) => setTimeout(() => frame(draw), 1000); })()")
    browser.value("(window.fetch = async () => new Response('{\"error\": \"no\"}', { status: 401 })) && 1")
    browser.type("dialog input", "wrong")
    browser.click("dialog [type=submit]")
    browser.waited("no") { browser.there?("dialog .bad") }
    expect(browser.value("[document.querySelector('dialog').open, document.querySelector('dialog input').value]")).to eq([true, ""])
  end
end
