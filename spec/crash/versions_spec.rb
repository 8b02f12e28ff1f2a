# frozen_string_literal: true

require_relative "spec_helper"

# F33: two versions on one Redis. Until there is a release, OLD names the commit that stands for the last version; versions
# of different schemas refuse each other, so it must be one of this tree's schema. It does not know how ids move.
RSpec.describe "Versions" do
  include CrashKit

  OLD = ENV.fetch("OLD", "fb6d5d11")

  # The old core's folder, or nil where git does not have it.
  def old_core
    folder = File.join(CProgram::FOLDER, "core-#{OLD}")
    return "#{folder}/core" if File.exist?("#{folder}/core/src/all.c")
    return unless system("git", "-C", CProgram::ROOT, "cat-file", "-e", "#{OLD}^{commit}", err: File::NULL)

    FileUtils.mkdir_p(folder)
    system("git -C #{CProgram::ROOT} archive #{OLD} core | tar x -C #{folder}") or raise "cannot unpack #{OLD}"
    "#{folder}/core"
  end

  # The schema that a core writes into new layouts.
  def schema(core) = File.read(Dir["#{core}/scripts/{,*/}layout.lua"].first)[/ARGV\[[13]\] \.\. ' (\d+)'/, 1]

  # The old core's folder, if this version can share a queue with it.
  def known_core
    core = old_core or skip "NOT PROVED: git has no #{OLD}"
    skip "NOT PROVED: #{OLD} is of schema #{schema(core)}, this tree of #{schema(CProgram::CORE)}" if schema(core) != schema(CProgram::CORE)
    core
  end

  # What is stored of a queue but for the tokens of clients that pushed, which expire.
  def stored(queue)
    keys = kit.redis.call("KEYS", "seriatim:{#{queue}*").grep_v(/:push:/).sort
    keys.to_h { |key| [key, kit.redis.call("DUMP", key)] }
  end

  def program(core) = { worker: CProgram.worker(core), producer: CProgram.producer(core) }

  it "F33 workers and producers of the last version and this one, killed at random, share a queue", limit: Figures.count(1500, 1800) do
    versions = [program(known_core), program(CProgram::CORE)]
    kit.queue("Mixed", shards_count: 16, batch_size: 2, max_retry_count: 1_000_000, back_off: 0.02, fold: "list")
    kit.watch_leases
    producers = versions.each_with_index.map do |version, number|
      kit.producer("c", "Mixed", (1..40).map { |n| "v#{number}-#{n}" }, program: version[:producer], count: Figures.count(10, 400), pause: 0.01)
    end
    kills = Figures.count(25, 2_000)
    start = -> { kit.worker("c", queue: "Mixed", lease: 0.4, threads: 4, program: versions.sample(random: kit.random)[:worker]) }
    4.times { start.call }
    kills.times do
      sleep kit.random.rand(0.06)
      kit.living.reject { |process| producers.include?(process) }.sample(random: kit.random)&.kill
      start.call
    end
    producers.each { |producer| expect(producer.wait(120)).to eq(0), producer.log }
    kit.drain(150)
    verdict = expect_all_well
    Figures.note("F33", "SIGKILLs among C workers of #{OLD} and of this version", kills)
    Figures.note("F33", "lost, reordered, concurrent", [verdict.lost, verdict.reordered, verdict.concurrent].map(&:size).join(", "))
  end

  # Without a server of this version the move that the command has begun stays where it is.
  it "F33, R-RESHARD-9 the last version refuses a queue whose ids move, writes nothing, and goes on when they have moved", limit: 1500 do
    old = program(known_core)
    kit.queue("Moved", shards_count: 2, fold: "list")
    push = ->(ids) { kit.producer("c", "Moved", ids, program: old[:producer], count: 3) }
    serve = -> { kit.worker("c", queue: "Moved", lease: 1, program: old[:worker]) }
    expect(push.call(ids = (1..40).map { |n| "a#{n}" }).wait).to eq(0)
    expect(kit.reshard("Moved", 5).wait).to eq(0)
    expect(kit.redis.call("GET", "seriatim:{Moved}:layout")).to include(" 5 4 2 ")
    before = stored("Moved")
    refused = /the queue is of schema 4, which a later version made; this one knows schema 3/
    expect([(producer = push.call(["b"])).wait, producer.log]).to match([1, refused])
    worker = serve.call
    kit.eventually { worker.log.match?(refused) }
    worker.stop
    expect(stored("Moved")).to eq(before)

    mover = kit.worker("c", queue: "Moved", lease: 1)
    kit.eventually { kit.redis.call("GET", "seriatim:{Moved}:layout").end_with?(" 5 3") }
    expect(mover.stop).to eq(0)
    serve.call
    expect(push.call(ids + ["b"]).wait).to eq(0)
    kit.drain
    expect_all_well
  end
end
