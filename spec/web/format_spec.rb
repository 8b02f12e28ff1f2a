# frozen_string_literal: true

require_relative "spec_helper"

# How the page words a duration: the browser's own, so one mount will do.
RSpec.describe "durations", mount: House::MOUNTS.keys.first do
  # What a function of core/web/ui/format.js makes of each of these.
  def formatted(function, *inputs)
    open("search")
    browser.waited("a page") { browser.there?("main h1") }
    browser.value("import([...document.scripts].at(-1).src.replace('app/app.js', 'ui/format.js')).then((m) => arguments[1].map((input) => m[arguments[0]](input)))", function, inputs)
  end

  it "are two units, the larger first" do
    year = 365 * 86_400
    words = { 0 => "0 s", -3 => "0 s", 0.0001 => "1 ms", 0.25 => "250 ms", 0.9994 => "999 ms", 0.9996 => "1 s", 1 => "1 s", 59.4 => "59 s", 59.6 => "1 m", 61 => "1 m 1 s",
              3599.6 => "1 h", 3660 => "1 h 1 m", 5399 => "1 h 29 m", 86_399 => "23 h 59 m", 86_400 => "1 d", 93_600 => "1 d 2 h", year - 1 => "364 d 23 h", year => "1 y",
              100 * year + 25 * 86_400 => "100 y 25 d" }
    expect(formatted("duration", *words.keys)).to eq(words.values)
    expect(formatted("duration", nil, "x")).to eq(["–", "–"])
  end

  it "stand in what the core says of an id" do
    said = {
      "it is due in 3598.2 s; node a:1 owns its shard" => "It is due in 59 m 58 s; node a:1 owns its shard.",
      "it failed; it became due 90000.0 s ago; its shard is paused" => "It failed; it became due 1 d 1 h ago; its shard is paused.",
      "it is due in 0.4 s; node is due in 7200.0 s owns its shard" => "It is due in 400 ms; node is due in 7200.0 s owns its shard.",
      "it runs, or is claimed to run on node 3600.0 s" => "It runs, or is claimed to run on node 3600.0 s.", "" => ""
    }
    expect(formatted("sentence", *said.keys)).to eq(said.values)
  end
end
