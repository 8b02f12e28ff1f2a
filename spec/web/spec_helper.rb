# frozen_string_literal: true

# What every spec of the dashboard begins with: a live store with a worker at work, a browser, and the four mounts.
require "timeout"
require "seriatim"
require_relative "kit/browser"
require_relative "kit/hostile"
require_relative "kit/live"
require_relative "kit/mounts"
require_relative "kit/site"

# Made when they are needed, for all examples of a process.
module House
  QUEUES = Array.new(ENV["SPREAD"] ? 50 : 90) { |number| format("Orders %02d", number + 1) }.freeze
  NAMES = ENV.fetch("MOUNTS", Mounts::CONSUMING.keys.join(",")).split(",")
  MOUNTS = Mounts::ALL.slice(*NAMES)
  LOCK = Mutex.new

  class << self
    def live = (@live ||= Live.new([*QUEUES, "Live", Application::PARKING, *Hostile::TEXTS.map { |text| Hostile.queue(text) }], env: { "THREADS" => "80" })).tap(&:use)
    def consuming = Mounts::CONSUMING.slice(*NAMES)
    def browser = @browser ||= Browser.new
    def rest = @browser&.visit("about:blank")
    # Threads of an example may be the first to ask for it.
    def mount(name) = LOCK.synchronize { (@mounts ||= {})[name] ||= MOUNTS.fetch(name).new(live.redis) }

    # One that no other example has used.
    def queue = (@free ||= QUEUES.dup).shift or raise "no more queues"

    def close
      [@browser, *@mounts&.values, @live].compact.each(&:close)
    end
  end
end

# The examples' words. `site` is where the dashboard of the mount that the group is about stands.
module Reading
  def live = House.live
  def browser = House.browser
  def mount = House.mount(self.class.metadata.fetch(:mount))
  def site(kind = :open) = mount.site(kind)

  def open(page, on: site, **parameters) = browser.visit(on.page(page, **parameters))

  # The ids in the page's table, in their order.
  def ids = browser.value("[...document.querySelectorAll('main tr.row:not(.gone)')].map((row) => row.dataset.key.slice(1))")

  def row(key) = %(tr[data-key="t#{key}"])
  def cell(key, label) = browser.text(%(#{row(key)} td[data-label="#{label}"]))
  def told = browser.text(".toast p")
  def see(text, seconds: 60) = browser.waited(text.inspect, seconds: seconds) { browser.page_text.include?(text) }

  # The page shows what the block wants, soon.
  def shows(expected, what = "the same")
    seen = nil
    browser.waited(what) { (seen = yield) == expected }
  rescue RuntimeError => e
    raise e unless seen

    expect(seen).to eq(expected)
    raise e
  end

  def rows_of(path) = site.get(path).json

  # The page's changes wait from the third on, until let_go: so that an action in slices does not end before a slow test looks.
  def hold_changes
    browser.value("(() => { const ask = window.fetch; let asked = 0; const gate = new Promise((go) => { window.letGo = go; }); " \
                  "window.fetch = async (url, options) => { if (options?.method === 'POST' && ++asked > 2) await gate; return ask(url, options); }; })()")
  end

  def let_go = browser.value("window.letGo()")
end

RSpec.configure do |config|
  config.disable_monkey_patching!
  config.example_status_persistence_file_path = nil
  config.order = :defined
  config.fail_fast = 3
  config.filter_run_excluding on_other_mounts: true
  config.include Reading
  # Far more than an example needs on a slow machine: what is waited for has limits of its own.
  config.around { |example| Timeout.timeout(example.metadata.fetch(:limit, 1200)) { example.run } }
  config.after { House.rest } # else the page goes on asking during examples that need none
  config.after(:suite) { House.close }
end

# A group for each mount. SPREAD: of that many mounts one runs an example, and the next one runs the next example. Examples about the
# host, which have :host, run on every second mount whatever the group says.
def each_mount(text, of: 2, &block)
  House::MOUNTS.each_key do |name|
    group = RSpec.describe("#{text}, #{name}", mount: name, &block)
    next unless ENV["SPREAD"]

    examples = group.descendants.flat_map(&:examples)
    examples.each_with_index do |example, at|
      of_these = example.metadata[:host] ? 2 : of
      example.metadata[:on_other_mounts] = ((at + Mounts::ALL.keys.index(name)) % of_these).positive?
    end
  end
end
