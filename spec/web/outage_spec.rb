# frozen_string_literal: true

require_relative "spec_helper"

# A store of its own, whose Redis is stopped and killed; with a mount of each kind.
module OutageHouse
  NAME = "Orders"

  class << self
    def live = @live ||= Live.new([NAME]).tap { |live| live.fill(NAME, later: 2) && live.stop_worker }
    def mount(name) = (@mounts ||= {})[name] ||= House::MOUNTS.fetch(name).new(live.redis)
    def close = [*@mounts&.values, @live].compact.each(&:close)
  end
end

RSpec.configure { |config| config.after(:suite) { OutageHouse.close } }

# What the pages say while Redis does not answer.
module Outage
  # Runs before anything of a page and notes each text that the pulse, the banner and the banner's alert had: {pulse, banner, alert}.
  NOTES = <<~JS
    (() => {
      window.notes = [];
      const text = (selector) => document.querySelector(selector)?.textContent ?? null;
      const note = () => {
        const seen = { pulse: text(".pulse"), banner: text(".banner"), alert: text("[role=alert]") };
        const last = window.notes.at(-1);
        if (seen.pulse !== null && (seen.pulse !== last?.pulse || seen.banner !== last.banner)) window.notes.push(seen);
      };
      new MutationObserver(note).observe(document, { childList: true, subtree: true, characterData: true });
    })();
  JS

  def live = OutageHouse.live
  def queue = OutageHouse::NAME
  def mount = OutageHouse.mount(self.class.metadata.fetch(:mount))
  def paused = live[queue].metrics[:paused]

  # For the block Redis hangs: it takes what is sent, and answers when the block has ended.
  def hanging
    Process.kill(:STOP, live.redis.pid)
    yield
  ensure
    Process.kill(:CONT, live.redis.pid)
  end

  # For the block there is no Redis; afterwards it has what it had.
  def killed
    live.redis.stop(:KILL)
    yield
  ensure
    live.redis.start
  end

  def notes(part) = browser.value("window.notes.map((note) => note[arguments[0]])", part).chunk_while { |a, b| a == b }.map(&:first)
  def pulse = browser.text(".pulse")

  # The seconds in texts of the shape "... for 4 s ...", in the order in which the page had them.
  def seconds(texts, before) = texts.filter_map { |text| text && text[/#{before} (\d+) s\b/, 1]&.to_i }

  # How many of the figures are one more than the figure before them.
  def ticks(figures) = figures.each_cons(2).count { |a, b| b - a == 1 }

  # Each figure is larger than the one before it, and enough of them are larger by one: a loaded machine skips a second now and then.
  def expect_ticking(figures, at_least:)
    expect([figures, figures.each_cons(2).all? { |a, b| a < b }, ticks(figures) >= at_least - 1]).to eq([figures, true, true])
  end

  def until_ticking(part, before, at_least:)
    browser.waited("#{at_least} ticks") { ticks(seconds(notes(part), before)) >= at_least - 1 }
  end

  def until_silent_for(seconds) = browser.waited("#{seconds} s of silence") { pulse[/No answer for (\d+) s/, 1].to_i >= seconds }
end

# The pulse is the browser's own matter, so one mount will do.
RSpec.describe "an outage", mount: House::MOUNTS.keys.first do
  include Outage

  before { @notes = browser.before_pages(Outage::NOTES) }

  after do
    browser.not_before_pages(@notes)
    browser.languages("en-US", "en")
  end

  after { |example| expect(browser.harm).to eq([]) unless example.exception }

  it "is shown as soon as an answer is overdue, second by second, until answers come again" do
    open("", on: mount.site)
    browser.waited("rows") { browser.there?("tr.row") && pulse == "Live" }
    browser.value("window.notes.splice(0).length")
    hanging do
      until_ticking("pulse", "No answer for", at_least: 8)
      until_ticking("banner", "What you see is", at_least: 5)
    end
    browser.waited("its end") { pulse == "Live" && !browser.there?(".banner") }
    said = notes("pulse")
    expect([said.last, said.grep_v(/\ANo answer for \d+ s\z/).uniq]).to eq(["Live", ["Live"]])
    silence = seconds(said, "No answer for")
    expect(silence.first).to be_between(2, 4)
    expect_ticking(silence, at_least: 8)
    expect_ticking(seconds(notes("banner"), "What you see is"), at_least: 5)
    first = browser.value("window.notes.find((note) => note.pulse.startsWith('No answer'))")
    expect(first["banner"]).to be_nil # which comes with the server's word, 4.5 s after the question
    expect(notes("alert").compact.size).to eq(1) # a screen reader says it once
  end

  %i[hanging killed].each do |kind|
    it "is told by a page that is opened in it, which never says Live before its first answer: #{kind}" do
      send(kind) do
        open("", on: mount.site)
        until_silent_for(8)
        until_ticking("pulse", "No answer for", at_least: 5)
        expect(browser.text("main h1")).to eq("Redis does not answer")
        expect(notes("pulse").first).to eq("Connecting…")
        expect(notes("pulse")).not_to include("Live")
        expect_ticking(seconds(notes("pulse"), "No answer for"), at_least: 5)
      end
      browser.waited("its end") { pulse == "Live" && browser.there?("tr.row") }
    end
  end

  it "is shown in each language" do
    texts = { "en" => /\ANo answer for (\d+) s\z/, "de" => /\ASeit (\d+) s keine Antwort\z/, "es" => /\ASin respuesta desde hace (\d+) s\z/,
              "fr" => /\APas de réponse depuis (\d+) s\z/, "ja" => /\A(\d+)秒間応答なし\z/ }
    begun = { "en" => "Connecting…", "de" => "Verbindet…", "es" => "Conectando…", "fr" => "Connexion…", "ja" => "接続中…" }
    hanging do
      texts.each do |code, text|
        browser.languages(code)
        open("nodes", on: mount.site)
        browser.waited("silence in #{code}") { pulse&.match?(text) }
        expect([code, notes("pulse").first]).to eq([code, begun[code]])
      end
    end
  end

  it "does not change a page that is paused, and is shown when the page goes on" do
    open("", on: mount.site)
    browser.waited("rows") { browser.there?("tr.row") && pulse == "Live" }
    browser.click(".pulse")
    browser.waited("stillness") { pulse == "Held" }
    sleep 1 # what was asked before has its answer
    hanging do
      sleep 3
      expect([pulse, browser.there?(".banner")]).to eq(["Held", false])
      browser.click(".pulse")
      until_silent_for(2)
    end
    browser.waited("its end") { pulse == "Live" }
  end
end

each_mount "a change in an outage" do
  include Outage

  after { |example| expect(browser.harm).to eq([]) unless example.exception }

  def ask_to_pause
    open("queue", on: mount.site, name: queue)
    browser.press("Pause", within: "main")
    browser.waited("the question") { browser.text("dialog h2") == "Pause this queue?" }
  end

  def go_ahead
    browser.click("dialog [type=submit]")
    browser.waited("the change under way") { browser.text("dialog [role=status]")&.include?("Working…") || browser.there?("dialog [role=alert]") }
  end

  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def never_paused
    browser.waited("answers") { pulse == "Live" && browser.there?("main .tile") }
    sleep 2
    expect(paused).to eq(0)
  end

  it "lets its dialog go at once by Escape and by its button, and is not carried out later" do
    leaves = { "Escape" => -> { browser.keys("\uE00C") }, "Close" => -> { browser.press("Close", within: "dialog") } }
    leaves.each do |way, leave|
      ask_to_pause
      killed do
        begun = clock
        go_ahead
        leave.call
        browser.waited("the page, by #{way}", seconds: 3) { !browser.there?("dialog") }
        expect([way, told]).to eq([way, nil]).or(satisfy { clock - begun > 4 }) # so the change is still under way
        browser.waited("what came of it") { told&.match?(/Redis|not/) }
      end
      never_paused
    end
  end

  # Hundreds of slices, so that Redis goes in the middle of them.
  it "tells how much of an action in slices was done, and lets its dialog go at once" do
    live[queue].perform_async(Array.new(1000) { |number| { id: "many-#{number}", payload: 1, delay: 3600 } })
    19.times { |more| live[queue].perform_async(Array.new(1000) { |number| { id: "many-#{more}-#{number}", payload: 1, delay: 3600 } }) }
    open("enqueued", on: mount.site, queue: queue)
    browser.press("Perform all now", within: "main")
    browser.waited("the question") { browser.there?("dialog [type=submit]") }
    hold_changes
    browser.click("dialog [type=submit]")
    browser.waited("progress") { browser.text("dialog .message")&.match?(/\A[\d,]+ of about/) }
    killed do
      browser.keys("\uE00C")
      browser.waited("the page", seconds: 3) { !browser.there?("dialog") }
      let_go
      browser.waited("what was done") { told&.match?(/\A[\d,]+ done so far\. Redis|\AStopped\. [\d,]+ ids are due now/) }
    end
    before = live[queue].queries.range_by_perform_in((Time.now + 60).to_f, Float::INFINITY, limit: 1000).size
    expect(before).to be_positive
  end

  it "may be silence: the dialog says why, the page behind it shows when Redis is back, and nothing is carried out later" do
    ask_to_pause
    killed do
      go_ahead
      until_silent_for(2)
      expect(browser.text("dialog [role=status]")).to include("Working…").or(satisfy { browser.there?("dialog [role=alert]") })
      browser.waited("why") { browser.there?("dialog [role=alert]") }
      until_silent_for(5)
    end
    browser.waited("Redis' return") { pulse == "Live" }
    expect(browser.there?("dialog [role=alert]")).to be(true)
    browser.press("Cancel", within: "dialog")
    never_paused
  end
end
