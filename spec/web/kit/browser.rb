# frozen_string_literal: true

require "json"
require "net/http"
require "tmpdir"
require "fileutils"

# A real chromium without a window, driven by the W3C WebDriver protocol over chromedriver. It can reach 127.0.0.1 alone.
# Whatever a page does that it should not, it notes: #harm.
class Browser
  ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
  FLAGS = %w[--headless=new --disable-gpu --disable-dev-shm-usage --no-first-run --no-default-browser-check --disable-extensions
             --disable-background-networking --disable-component-update --disable-sync --disable-default-apps --metrics-recording-only
             --no-proxy-server --hide-scrollbars --force-device-scale-factor=1 --lang=en-US --window-size=1440,900
             --force-color-profile=srgb].freeze
  # Runs before anything of a page. sessionStorage outlives the page, so nothing is forgotten on the way to the next one.
  TRAP = <<~JS
    (() => {
      const note = (text) => sessionStorage.setItem("trap", (sessionStorage.getItem("trap") || "") + text.slice(0, 300) + "\\n");
      for (const name of ["alert", "confirm", "prompt", "print", "open", "eval"]) window[name] = (text) => note(`${name}(${text})`);
      addEventListener("securitypolicyviolation", (e) => note(`csp ${e.violatedDirective} ${e.blockedURI} ${e.sample}`), true);
      addEventListener("error", (e) => note(`error ${e.message || e.target?.src || e.target?.href}`), true);
      addEventListener("unhandledrejection", (e) => note(`rejection ${e.reason}`));
    })();
  JS
  SCRIPT = 300 # seconds that a script may take; chromedriver's own limit of 30 s is too short for a slow machine
  private_constant :FLAGS, :SCRIPT

  class Failed < StandardError; end

  def initialize
    @folder = Dir.mktmpdir("seriatim-browser")
    start_driver
    start_session
    lay_trap
    @first = command(:get, "/window")
  rescue StandardError
    close
    raise
  end

  def close
    command(:delete, "") if @session
  rescue StandardError
    nil # it may be gone
  ensure
    end_driver
    FileUtils.rm_rf(@folder)
  end

  # ---- where

  def visit(url) = command(:post, "/url", url: url)
  def url = command(:get, "/url")
  def reload = command(:post, "/refresh", {})
  def back = command(:post, "/back", {})

  # Before the first page of that origin.
  def cookie(name, value) = command(:post, "/cookie", cookie: { name: name, value: value, path: "/" })
  def forget_cookies = command(:delete, "/cookie")

  # Another window, from now on the one in front.
  # @return [String] its name
  def new_window
    command(:post, "/window/new", type: "window").fetch("handle").tap { |window| in_window(window) && lay_trap }
  end

  def in_window(window) = command(:post, "/window", handle: window).nil?

  # The first one is in front again.
  def close_window(window)
    in_window(window) && command(:delete, "/window")
    in_window(@first)
  end

  # ---- what is there

  # The value of a JavaScript expression; `arguments` are its own.
  def value(expression, *arguments) = command(:post, "/execute/sync", script: "return (#{expression})", args: arguments)

  def text(selector) = value("document.querySelector(arguments[0])?.innerText ?? null", selector)
  def texts(selector) = value("[...document.querySelectorAll(arguments[0])].map((e) => e.innerText)", selector)
  def there?(selector) = value("document.querySelector(arguments[0]) !== null", selector)
  def page_text = value("document.body.innerText")

  # What no page should have done: scripts that ran, violations of the policy, errors.
  # On no page, such as about:blank, nothing can be kept.
  def harm = value('location.origin === "null" ? null : sessionStorage.getItem("trap")')&.lines(chomp: true) || []

  # ---- what a reader does: with real events, on what can be seen

  def click(selector) = act(selector) { |element| command(:post, "/element/#{element}/click", {}) }

  # At these places of the window, one after another, whatever lies there: [x, y].
  def click_at(*places)
    moves = places.flat_map { |x, y| [{ type: "pointerMove", x: x.round, y: y.round, duration: 0 }, { type: "pointerDown", button: 0 }, { type: "pointerUp", button: 0 }] }
    command(:post, "/actions", actions: [{ type: "pointer", id: "mouse", parameters: { pointerType: "mouse" }, actions: moves }])
  end

  def point_at(x, y) = command(:post, "/actions", actions: [{ type: "pointer", id: "mouse", actions: [{ type: "pointerMove", x: x.round, y: y.round, duration: 0 }] }])

  # The button, link or label with that text.
  def press(label, within: "body")
    waited("a button #{label.inspect}") do
      found = command(:post, "/execute/sync", script: <<~JS, args: [label, within])
        return [...document.querySelectorAll(`${arguments[1]} :is(button, a)`)]
          .find((e) => e.innerText.trim() === arguments[0] && !e.disabled && e.checkVisibility()) ?? null
      JS
      found && command(:post, "/element/#{found.fetch(ELEMENT)}/click", {}).then { true }
    end
  end

  def type(selector, text)
    act(selector) do |element|
      command(:post, "/element/#{element}/clear", {})
      command(:post, "/element/#{element}/value", text: text)
    end
  end

  def keys(*words) = command(:post, "/actions", actions: [{ type: "key", id: "keys", actions: words.flat_map { |w| %w[keyDown keyUp].map { |t| { type: t, value: w } } } }])

  def choose(selector, option) = click(%(#{selector} option[value="#{option}"]))

  # ---- how it looks

  def size(width, height) = cdp("Emulation.setDeviceMetricsOverride", width: width, height: height, deviceScaleFactor: 1, mobile: width < 500)

  def theme(word) = cdp("Emulation.setEmulatedMedia", features: [{ name: "prefers-color-scheme", value: word }])

  # Where its reader is: "Europe/Berlin"; empty: where the machine is.
  def time_zone(name) = cdp("Emulation.setTimezoneOverride", timezoneId: name)

  # As it is printed, for the block.
  def print
    cdp("Emulation.setEmulatedMedia", media: "print")
    yield
  ensure
    cdp("Emulation.setEmulatedMedia", media: "")
  end

  # What its reader reads, the dearest first: "de-CH", "de". Holds from the next page on.
  def languages(*tags) = cdp("Emulation.setUserAgentOverride", userAgent: value("navigator.userAgent"), acceptLanguage: tags.join(","))

  # @return [String] PNG
  def picture(whole: false)
    cdp("Page.captureScreenshot", format: "png", captureBeyondViewport: whole).fetch("data").unpack1("m")
  end

  # ---- what it cannot reach

  # Addresses, with * for anything; none: it reaches all again.
  def blocked(*addresses) = cdp("Network.enable") && cdp("Network.setBlockedURLs", urls: addresses)

  # ---- what it runs

  # Runs this script before anything of each page that is opened from now on.
  # @return [String] its name, for not_before_pages
  def before_pages(source) = cdp("Page.addScriptToEvaluateOnNewDocument", source: source).fetch("identifier")
  def not_before_pages(name) = cdp("Page.removeScriptToEvaluateOnNewDocument", identifier: name)

  # ---- what it costs

  # Seconds that the page's main thread has worked, by its own clock: what others do on the machine does not count.
  def worked
    @measures ||= cdp("Performance.enable", timeDomain: "threadTicks")
    cdp("Performance.getMetrics").fetch("metrics").to_h { |metric| metric.values_at("name", "value") }.fetch("TaskDuration")
  end

  # ---- what it asked of whom, since the last call: addresses

  def requested
    command(:post, "/se/log", type: "performance").filter_map do |entry|
      message = JSON.parse(entry.fetch("message")).fetch("message")
      message.dig("params", "request", "url") if message["method"] == "Network.requestWillBeSent"
    end
  end

  # Until the block gives something true. It is asked soon again at first and then less often: each look costs the browser work.
  def waited(what, seconds: 60)
    deadline = now + seconds
    pause = 0.03
    loop do
      found = begin
        yield
      rescue Failed => e # what is drawn anew meanwhile
        @last = e
        nil
      end
      return found if found

      raise "no #{what} within #{seconds} s, but:\n#{url}\n#{page_text[0, 1500]}\n#{harm.join("\n")} #{@last&.message}" if now > deadline

      sleep pause
      pause = [pause * 1.4, 0.25].min
    end
  end

  private

  def act(selector)
    waited(selector) do
      element = command(:post, "/element", using: "css selector", value: selector).fetch(ELEMENT)
      yield element
      true
    end
  end

  def cdp(name, **parameters) = command(:post, "/goog/cdp/execute", cmd: name, params: parameters)

  def lay_trap = before_pages(TRAP)

  # ---- the driver

  def start_driver
    @log = File.join(@folder, "driver.log")
    @driver = spawn({ "LD_PRELOAD" => nil, "HOME" => @folder }, "chromedriver", "--port=0", out: @log, err: %i[child out], pgroup: true)
    deadline = now + 60
    until (port = File.read(@log)[/started successfully on port (\d+)/, 1])
      raise "chromedriver does not start: #{File.read(@log)}" if now > deadline || Process.wait(@driver, Process::WNOHANG)

      sleep 0.02
    end
    @http = Net::HTTP.new("127.0.0.1", port.to_i, nil)
    @http.read_timeout = SCRIPT + 60
    @http.start
  end

  # Its group: chromium with all its processes is in it.
  def end_driver
    @http&.finish
    Process.kill(:KILL, -@driver)
    Process.wait(@driver)
  rescue Errno::ESRCH, Errno::ECHILD, IOError
    nil
  end

  def start_session
    flags = [*FLAGS, "--user-data-dir=#{@folder}/profile", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    flags << "--no-sandbox" if Process.uid.zero?
    wanted = { browserName: "chrome", unhandledPromptBehavior: "ignore", "goog:chromeOptions": { args: flags }, "goog:loggingPrefs": { performance: "ALL" } }
    @session = command(:post, nil, capabilities: { alwaysMatch: wanted }).fetch("sessionId")
    command(:post, "/timeouts", script: SCRIPT * 1000)
  end

  def command(method, path, body = nil)
    request = Net::HTTP.const_get(method.capitalize).new(path ? "/session/#{@session}#{path}" : "/session", "Content-Type" => "application/json")
    request.body = JSON.generate(body) if body
    answer = JSON.parse(@http.request(request).body).fetch("value")
    raise Failed, "#{method} #{path}: #{answer["error"]}: #{answer["message"].to_s[0, 500]}" if answer.is_a?(Hash) && answer["error"] && answer["stacktrace"]

    answer
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
