# frozen_string_literal: true

require_relative "cluster_load"

# Servers of a language, producers of all, and everything at once that happens to a Redis Cluster and to servers.
RSpec.describe "Storms on a Redis Cluster" do
  include ClusterLoad

  EACH = 4 # servers
  # In the short form one storm has a server of each language.
  STORMS = Figures::SOAK ? AllLanguages::LANGUAGES.to_h { |language| [language, [language] * EACH] } : { "all languages" => Kit::LANGUAGES }
  PLANNED = { move_slot: 0.05, fail_over: 4 }.freeze
  ANYTHING = { **PLANNED, fail_over: 9, kill_master: 20, kill_server: 4, freeze_server: 5 }.freeze

  before { |example| with_redis(redis: ClusterSetup) unless example.metadata[:journal] }

  def logs = kit.processes.map(&:log).join

  def figures(name, done, verdict)
    Figures.note("F38", "#{name}: #{done.keys.join(", ").tr("_", " ")}", done.values.join(", "))
    Figures.note("F38", "#{name}: pushes acknowledged, runs", [kit.journal.lines.count { |line| line.kind == "pushed" }, verdict.begun].join(", "))
    Figures.note("F38", "#{name}: lost, out of order, concurrent", [verdict.lost, verdict.reordered, verdict.concurrent].map(&:size).join(", "))
    Figures.note("F38", "#{name}: numbers run more than once", verdict.repeated.size)
    Figures.note("F38", "#{name}: overtaken runs that reported an end", verdict.overtaken.values.sum)
    Figures.note("F38", "#{name}: overlaps, of forgotten claims only", verdict.late.size)
    verdict.late.each { |run| puts "         #{run}" }
  end

  # A run under fence 20 begins while another process runs the id under fence 10. The master of the shard was killed at 15.
  def judged(heard:, shard: Zlib.crc32("a") % ClusterLoad::SHARDS)
    path = File.join(Dir.mktmpdir, "journal")
    File.write(path, ["pushed Load a 1", "start 1 Load a 10 -1 1 0.1", "failover 0 15", "heard Load #{shard} #{heard}", "start 2 Load a 20 -1 1 0.2", "end 2 Load a 20 0.3",
                      "end 1 Load a 10 0.4"].map { |line| "#{line} .\n" }.join)
    ClusterChecker.new(Journal.new(path).lines, ClusterLoad::SHARDS)
  ensure
    FileUtils.rm_rf(File.dirname(path))
  end

  it "control: only an overlap with a claim that the replica lacked is forgiven, and its late end must be refused", journal: true do
    lacked = judged(heard: 9)
    expect([lacked.faults, lacked.late.size, lacked.overtaken]).to eq([{}, 1, { [1, Zlib.crc32("a") % ClusterLoad::SHARDS] => 1 }])
    expect(judged(heard: 10).faults.keys).to eq([:concurrent])
    expect(judged(heard: 9, shard: Zlib.crc32("b") % ClusterLoad::SHARDS).faults.keys).to eq([:concurrent])
  end

  STORMS.each do |name, languages|
    it "F37, F38, R-CLUSTER-4 failovers by command and moving slots change nothing (#{name})" do
      start_load(languages, lease: Figures.count(20, ClusterLoad::LEASE)) # outlasts a failover that a busy replica gives up and begins again
      done = storm(Figures.count(4, 180), PLANNED)
      verdict = end_load
      figures("planned, #{name}", done, verdict)
      expect(verdict.strict_faults).to eq({})
      expect(verdict.void + verdict.late).to eq([])
      expect(kit.refused).to eq(0)
      expect(logs).not_to include("CROSSSLOT")
    end

    it "F1, F2, F37, F38, R-CLUSTER-5 kills and freezes of servers, moving slots, failovers and killed masters at once lose nothing (#{name})" do
      start_load(languages)
      done = storm(Figures.count(10, 180), ANYTHING)
      verdict = end_load
      figures("anything, #{name}", done, verdict)
      expect(verdict.faults).to eq({})
      expect(logs).not_to include("CROSSSLOT")
    end
  end
end
