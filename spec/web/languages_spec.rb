# frozen_string_literal: true

require_relative "spec_helper"

# The languages of the page. It is the browser's own matter, so one mount will do.
RSpec.describe "languages", mount: House::MOUNTS.keys.first do
  MENU = 'select[aria-label="Language"]'
  # Of each language: its file, and of each text which values it shows at these counts; and the plural forms that it knows.
  READ = <<~JS
    (async (counts) => {
      const base = [...document.scripts].at(-1).src.replace("app/app.js", "");
      const { LANGUAGES, choose, t } = await import(`${base}app/text.js`);
      const { default: english } = await import(`${base}locales/en.js`);
      const values = Object.fromEntries([...JSON.stringify(english).matchAll(/{(\\w+)}/g)].map(([, name]) => [name, `«${name}»`]));
      const shows = (key, count) => [...t(key, { ...values, count }).matchAll(/«(\\w+)»/g)].map(([, name]) => name);
      const all = {};
      for (const code of Object.keys(LANGUAGES)) {
        await choose(code);
        const { default: texts } = await import(`${base}locales/${code}.js`);
        const shown = Object.fromEntries(Object.keys(english).map((key) => [key, counts.map((count) => shows(key, count))]));
        all[code] = { texts, shown, forms: new Intl.PluralRules(code).resolvedOptions().pluralCategories };
      }
      localStorage.clear();
      return all;
    })(...arguments)
  JS
  COUNTS = [1, 2, 3, 5, 11, 21, 100, 1_000_000].freeze # what asks of ids asks of one at least

  after do
    browser.value("localStorage.clear() ?? 1")
    browser.languages("en-US", "en")
  end

  def places(text) = (text.is_a?(Hash) ? text.values : [text]).flat_map { |form| form.scan(/\{(\w+)\}/).flatten }.uniq

  def read
    open("search")
    browser.waited("a page") { browser.there?("main h1") }
    browser.value(READ, COUNTS)
  end

  # Reads the page anew as somebody who prefers these languages.
  def visit(page, *tags)
    browser.languages(*tags)
    open(page)
    browser.waited("a page") { browser.there?("main h1") }
  end

  def words = [browser.value("document.documentElement.lang"), browser.text("main h1")]

  it "have the texts of English, and each text says the same values" do
    all = read
    expect(all.keys).to include("en", "de")
    english = all.fetch("en")
    keys = english["texts"].keys
    all.each do |code, language|
      expect([code, keys - language["texts"].keys, language["texts"].keys - keys]).to eq([code, [], []])
      language["texts"].each do |key, text|
        known = places(english["texts"][key])
        expect([code, key, places(text) - known]).to eq([code, key, []])
        COUNTS.zip(english["shown"][key], language["shown"][key]) { |count, wanted, shown| expect([code, key, count, wanted - shown]).to eq([code, key, count, []]) }
        expect([code, key, text]).to match([code, key, be_a(String) & match(/\S/)]) unless text.is_a?(Hash)
        expect([code, key, text.keys - language["forms"] - ["one"], text.key?("other")]).to eq([code, key, [], true]) if text.is_a?(Hash)
      end
    end
  end

  it "are chosen as the browser prefers them, and only that one is loaded" do
    browser.requested
    visit("", "de-CH", "fr")
    browser.waited("the queues") { browser.there?("main tr.row") }
    expect(words).to eq(%w[de Übersicht])
    expect(browser.texts("main h2")).to eq(%w[Verlauf Queues Redis])
    expect(browser.texts("main th")).to include("Verzug", "Eingereiht", "Tot")
    expect(browser.requested.grep(%r{/locales/}).map { |url| File.basename(url) }).to contain_exactly("de.js")
    expect(browser.harm).to eq([])
  end

  it "are English where none is known, and the first that is" do
    visit("nodes", "eo", "tlh-KL")
    expect(words).to eq(%w[en Nodes])
    visit("nodes", "eo", "fr-CA", "de")
    expect(words).to eq(%w[fr Nœuds])
  end

  it "change at once by the menu, from the keyboard, and stay" do
    visit("", "en-US")
    browser.waited("queues") { browser.there?("main tr.row") }
    browser.type('input[aria-label="Filter queues"]', "nothing is called so")
    browser.waited("no queue") { !browser.there?("main tr.row") }
    browser.value("(window.same = true)")
    browser.waited("the menu") { browser.keys("\uE004").nil? && browser.value("document.activeElement.matches(arguments[0])", MENU) } # Tab
    browser.keys("d")
    browser.waited("German") { words == %w[de Übersicht] && browser.text(".empty")&.include?("Keine Queue passt") }
    expect(browser.value("[window.same, document.activeElement.value, document.querySelector('.tools input').value]")).to eq([true, "de", "nothing is called so"])
    expect(browser.texts(".axis span")).to include("vor 1 min 40 s")
    browser.reload
    browser.waited("German again") { words == %w[de Übersicht] }
    visit("nodes", "ja")
    expect(words).to eq(%w[de Knoten])
    expect(browser.value('localStorage.getItem("seriatim.language")')).to eq("de")
    expect(browser.harm).to eq([])
  end

  it "stay as they are when the file of another does not come" do
    visit("nodes", "es")
    browser.blocked("*/fr.js")
    menu = 'select[aria-label="Idioma"]'
    browser.choose(menu, "fr")
    browser.waited("word of it") { told&.start_with?("No se hizo: ") }
    expect([words, browser.value("document.querySelector(arguments[0]).value", menu), browser.value("localStorage.length")]).to eq([%w[es Nodos], "es", 0])
    browser.blocked
    browser.choose(menu, "fr")
    browser.waited("French") { words == %w[fr Nœuds] }
  ensure
    browser.blocked
  end

  it "write numbers and times in their own way" do
    written = lambda do |code|
      visit("search", code)
      browser.value(<<~JS)
        import([...document.scripts].at(-1).src.replace("app/app.js", "ui/format.js")).then((m) => [
          ...[0, 0.25, -3, 998.7, 1234, 12345.6, 999500, 2.5e9, 1e15].map((n) => m.number(n, 1)), m.count(1234567), m.duration(93600), m.absoluteTime(1.7e9)])
      JS
    end
    expect(written["en"][..10]).to eq(["0", "0.3", "-3", "999", "1.23K", "12.3K", "1.00M", "2.50B", "1,000T", "1,234,567", "1 d 2 h"])
    expect(written["de"][..10]).to eq(["0", "0,3", "-3", "999", "1,23k", "12,3k", "1,00M", "2,50G", "1.000T", "1.234.567", "1 d 2 h"])
    expect(written["ja"][10]).to eq("1日 2時間")
    expect(written["de"][11]).to match(/\A1[45]\.11\.2023, /)
    expect(written["ja"][11]).to match(%r{\A2023/11/1[45] })
  end
end
