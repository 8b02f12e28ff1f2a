# frozen_string_literal: true

require_relative "spec_helper"

# The lease of a shard, tested by calling the scripts alone: which node takes it from which, whatever the nodes knew when they asked.
RSpec.describe "leases" do
  include CrashKit

  let(:redis) { kit.redis }

  keys = ["seriatim:{Q/0}:state", "seriatim:{Q/0}:-"]

  texts = nil

  # A script with its libraries in place.
  define_method(:script) do |name|
    texts ||= Dir.mktmpdir do |folder|
      system(File.expand_path("../../script/embed", __dir__), "--expand", folder) or raise "script/embed failed"
      Dir["#{folder}/*.lua"].to_h { |path| [File.basename(path, ".lua"), File.read(path)] }
    end
    texts.fetch(name)
  end

  define_method(:keys) { keys }

  def call(name, *arguments) = redis.call("EVAL", script(name), keys.size.to_s, *keys, "1", *arguments.map(&:to_s))

  def acquire(node, owner: "", lease: 0, runs: []) = call("acquire", node, "merge", owner, lease, *runs)

  def push(id) = redis.call("EVAL", script("push"), "3", *keys, "seriatim:{Q/0}:token", "1", "1", "merge", "keep", "2", "0", id, "\"p\"")

  it "F2 a node that was found dead and came back keeps its shard" do
    _, lease, = acquire("a")
    word, renewed, = acquire("a", lease: lease) # it missed a heartbeat, came back, and compared what it has
    expect(word).to eq("KEPT")
    expect(acquire("b", owner: "a", lease: lease)).to eq(["TAKEN", "a", renewed]) # b had seen it dead before
    expect(acquire("b", owner: "a", lease: renewed).first).to eq("OK") # and would be right now
  end

  it "F2 a node settles under its new lease only, not under the old one" do
    _, lease, seen = acquire("a")
    push("x")
    answer = call("claim", lease, seen, 10, 0, 0, "merge", 0, 25, "bury")
    run = "0n#{answer[1]}"
    _, renewed, = acquire("a", lease: lease, runs: ["x", run])
    expect(call("settle", lease, 1, "merge", 1, run, 1, "x")).to eq(%w[STALE a])
    expect(call("settle", renewed, 1, "merge", 1, run, 1, "x")).to eq(["0", "0", ""])
    expect(redis.call("EXISTS", keys[1])).to eq("0")
  end
end
