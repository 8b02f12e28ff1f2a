# frozen_string_literal: true

require "fileutils"
require_relative "spec_helper"

# How the pages look: on a wide, a middle and a narrow screen, light and dark. With SCREENSHOTS=1 all of it goes to
# tmp/screenshots/, and what the documents show to docs/images/; else nothing is written.
RSpec.describe "the looks" do
  SIZES = { 1440 => 900, 1280 => 800, 768 => 1024, 390 => 844 }.freeze
  WRITES = ENV["SCREENSHOTS"] == "1"
  ROOT = File.expand_path("../..", __dir__)
  # File => page, width, theme.
  COMMITTED = { "overview" => ["overview", 1440, "light"], "queue" => ["queue", 1440, "dark"], "id" => ["id", 1440, "light"],
                "phone" => ["overview", 390, "light"] }.freeze
  LONG = { ["overview", 1440] => 60, ["queue", 1440] => 45, ["overview", 390] => 30 }.freeze # seconds, for the live chart
  MOST = 150_000 # bytes of a committed picture

  # A shop at work.
  class Shop
    NAMES = %w[Invoices Mailing Orders Reports SearchIndex Stock Thumbnails Webhooks].freeze
    ERRORS = ["Net::ReadTimeout: api.parcel.example did not answer within 30 s", "no address for customer 4711",
              "Redis::CannotConnectError: Connection refused", "HTTP 503 from pay.example\nfrom charge.rb:41:in `post'\nfrom invoice.rb:17:in `perform'"].freeze

    attr_reader :live

    def initialize(seconds)
      ENV["SHARDS"] = "12"
      @live = Live.new(NAMES)
      ENV.delete("SHARDS")
      fail_some
      wait_for_some
      run_some
      @pusher = Thread.new { push_on }
      sleep seconds
    end

    def close
      @pusher.kill.join
      @live.close
    end

    private

    def fail_some
      errors = ERRORS.cycle
      jobs = Array.new(23) { |n| { id: "order-#{7300 + 17 * n}", payload: { "fail" => errors.next, "order" => 7300 + 17 * n }, retry_count: n % 5 == 4 ? 0 : 2 } }
      @live["Webhooks"].perform_async(jobs)
      @live["Mailing"].perform_async(Array.new(4) { |n| { id: "ada-#{n}@mail.example", payload: { "fail" => ERRORS[1] } } })
      @live.until_true("failed") { @live["Webhooks"].metrics[:morgue_length] == 19 && @live["Mailing"].metrics[:retries] == 4 }
    end

    def wait_for_some
      { "Mailing" => 210, "Reports" => 140, "Stock" => 1240, "Orders" => 36, "SearchIndex" => 62 }.each do |name, count|
        @live[name].perform_async(Array.new(count) { |n| { id: "#{name.downcase}-#{1000 + 7 * n}", payload: { "n" => n }, delay: 300 + n } })
      end
      7.times { |n| @live["Orders"].perform_async([{ id: "orders-1000", payload: { "line" => n + 1, "article" => "A-#{220 + n}" }, context: { "by" => "checkout" } }]) }
      6.times { |n| @live["Mailing"].perform_async(Array.new(9 - n) { |k| { id: "mailing-#{1000 + 7 * (k * k % 40)}", payload: { "letter" => n } } }) }
      @live["Stock"].actions.park(%w[stock-1000 stock-1007 stock-1014])
      @live["Thumbnails"].perform_async(Array.new(48) { |n| { id: "image-#{n}", payload: { "width" => 320 } } })
      @live["Thumbnails"].actions.pause
      @live["Thumbnails"].perform_async(Array.new(30) { |n| { id: "picture-#{n}", payload: { "width" => 320 } } })
    end

    def run_some
      @live["SearchIndex"].perform_async(%w[index-de index-en index-fr].map { |id| { id: id, payload: { "sleep" => 900 } } })
      @live["Webhooks"].perform_async([{ id: "order-7300", payload: { "note" => "pushed while it is dead" }, delay: 1200, context: { "by" => "shop" } }])
    end

    def push_on
      (1..).each do |n|
        wave = 10 + (8 * Math.sin(n / 12.0)).round
        @live["Invoices"].perform_async(Array.new(wave) { |k| { id: "invoice-#{n}-#{k}", payload: { "sleep" => 0.01 } } })
        @live["Mailing"].perform_async(Array.new(4 + 3 * (n / 20 % 3)) { |k| { id: "ada-#{n * k % 97}@mail.example", payload: (n + k) % 31 == 0 ? { "fail" => ERRORS[0] } : { "sleep" => 0.3, "n" => n } } })
        sleep 0.4
      end
    end
  end

  before(:all) do
    @shop = Shop.new(WRITES ? 1 : 0)
    @mount = House::MOUNTS.values.first.new(@shop.live.redis)
  end

  after(:all) { [@mount, @shop].compact.each(&:close) }

  def site(kind = :open) = @mount.site(kind)

  def pages
    { "overview" => ["", {}], "queue" => ["queue", { name: "Mailing" }], "enqueued" => ["enqueued", { queue: "Stock" }], "dead" => ["dead", { queue: "Webhooks" }],
      "parked" => ["parked", { queue: "Stock" }], "id" => ["id", { queue: "Webhooks", id: "order-7300" }], "running" => ["running", {}], "nodes" => ["nodes", {}],
      "search" => ["search", { q: "order-7300", queue: "Webhooks" }], "empty" => ["dead", { queue: "Stock" }], "none" => ["queue", { name: "none" }] }
  end

  def write(path, picture)
    FileUtils.mkdir_p(File.dirname(path))
    File.binwrite(path, picture)
    system("optipng", "-quiet", "-o2", path) if system("command -v optipng >/dev/null")
  end

  def keep(name, width, theme)
    picture = browser.picture
    write(File.join(ROOT, "tmp/screenshots/#{name}-#{width}-#{theme}.png"), picture)
    file = COMMITTED.key([name, width, theme]) or return
    path = File.join(ROOT, "docs/images/#{file}.png")
    write(path, picture)
    expect([file, File.size(path)]).to match([file, 0..MOST])
  end

  # What is wider than the screen, or cut off by it. A phone's innerWidth grows with what is in it.
  WIDE = <<~JS
    ((width) => [document.documentElement.scrollWidth > width && "the page", ...[...document.querySelectorAll("main h1, main h2, main button, header button")]
      .filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > width + 1).map((e) => e.outerHTML.slice(0, 100))].filter(Boolean))(...arguments)
  JS

  # The figures and their names that do not fit their place, with the widest lags that there are.
  CUT = <<~JS
    import([...document.scripts].at(-1).src.replace("app/app.js", "ui/format.js")).then(({ duration }) => [364 * 86400 + 23 * 3600, 3599].flatMap((seconds) =>
      [...document.querySelectorAll(".strip dt, .strip dd")].filter((part) => {
        const lag = part.querySelector(".lag");
        lag?.classList.add("bad");
        lag?.replaceChildren(document.querySelector("header .icon").cloneNode(true), duration(seconds));
        return part.scrollWidth > part.clientWidth;
      }).map((part) => [part.innerText, part.scrollWidth, part.clientWidth])))
  JS

  # The charts whose legends take more than one line, with wide figures.
  WRAPPED = <<~JS
    import([...document.scripts].at(-1).src.replace("app/app.js", "ui/format.js")).then(({ duration }) => [...document.querySelectorAll("figure.panel")].filter((panel) => {
      const legends = [...panel.querySelectorAll(".legend")];
      legends.forEach((legend) => legend.querySelector("b").replaceChildren(panel.matches(".lag, .runs") ? duration(3599) : "999.9/s"));
      return new Set(legends.map((legend) => legend.offsetTop)).size > 1 || legends.some((legend) => legend.scrollWidth > legend.clientWidth || legend.offsetLeft + legend.offsetWidth > panel.offsetLeft + panel.offsetWidth);
    }).map((panel) => [panel.className, panel.querySelector("figcaption").innerText, panel.clientWidth]))
  JS

  # The languages in the menu, and choosing one.
  LANGUAGES = "[...document.querySelectorAll('.tool select option')].map((option) => option.value)"
  CHOOSE = "((code, menu) => { menu.value = code; menu.dispatchEvent(new Event('change')); })(arguments[0], document.querySelector('.tool select'))"

  def settled(name, language)
    browser.waited(name) { browser.there?("html[lang=#{language}] main h1") && !browser.there?(".skeleton") }
  end

  SIZES.each do |width, height|
    it "fit a screen of #{width} pixels, light and dark, in every language" do
      browser.size(width, height)
      pages.each do |name, (page, parameters)|
        open(page, **parameters)
        settled(name, "en")
        sleep LONG.fetch([name, width], 1.5) if WRITES
        %w[light dark].each do |theme|
          browser.theme(theme)
          sleep 0.3 if WRITES
          keep(name, width, theme) if WRITES
        end
        browser.value(LANGUAGES).each do |language|
          browser.value(CHOOSE, language)
          settled(name, language)
          expect([name, language, browser.value(WIDE, width), browser.value(CUT), browser.value(WRAPPED)]).to eq([name, language, [], [], []])
        end
        browser.value("localStorage.clear() ?? 1")
      end
      expect(browser.harm).to eq([])
    ensure
      browser.value("localStorage.clear() ?? 1") # so that the next size begins in English, too
    end
  end

  it "are light or dark as the system is, or as its reader wants" do
    browser.size(1440, 900)
    open("")
    browser.waited("a page") { browser.there?("main h1") }
    ground = -> { browser.value("getComputedStyle(document.body).backgroundColor") }
    grounds = %w[light dark].map { |theme| browser.theme(theme) && ground.call }
    expect(grounds.uniq.size).to eq(2)
    browser.click('button[aria-label="Light or dark"]')
    browser.waited("the other one") { ground.call == grounds[0] }
    browser.reload
    browser.waited("the same again") { browser.there?("main h1") && ground.call == grounds[0] }
    browser.value("localStorage.clear() ?? 1")
  end
end
