# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"
require_relative "../../spec/support/figures"

# Processes that are asked to leave, and jobs that do not.
RSpec.describe "ways to leave perform or the process", limit: Figures.count(240, 900) do
  let(:exits) { worker("Exits", shards_count: 3) }

  around do |example|
    Dir.mktmpdir { |folder| (@journal = File.join(folder, "journal")) && example.run }
  end

  before { FileUtils.touch(@journal) }
  after { commands.each(&:remove) }

  def commands = @commands ||= []
  def journal = File.readlines(@journal, chomp: true).map(&:split)
  def events(id) = journal.select { |line| line[1] == id }.map { |pid, _, word| [pid.to_i, word] }


  def app = File.join(__dir__, "support/exits_app.rb")

  def start(*arguments)
    Command.new("-r", app, *arguments, env: { "JOURNAL" => @journal }).tap { |command| commands << command }
  end

  def push(id, word, number = 0) = exits.perform_async([{ id: id, payload: [word, number] }])

  # No shard has an owner, nothing is claimed, no node lives.
  def nothing_held
    eventually { Seriatim::Metrics.nodes.empty? }
    expect(exits.metrics[:shards].map { |shard| shard[:owner] }.uniq).to eq([nil])
    expect(exits.queries.processing_data).to eq([])
  end

  def waiting(id) = exits.queries.fetch([id]).first

  {
    "a TERM to its own process" => "term", "SystemExit for the main thread" => "main exit",
    "Interrupt for the main thread" => "main interrupt", "exit in a thread of its own" => "thread exit"
  }.each do |name, word|
    it "F9 a real request to exit, #{name}, stops the server cleanly" do
      server = start("-c", "2", "-t", "25")
      push("long", "sleep", 0.6)
      eventually { events("long").any? }
      push("asks", word, 9)
      expect(server.wait).to eq(0)
      expect([events("long"), events("asks")].map { |lines| lines.map(&:last) }).to eq([%w[start end], %w[start end]])
      expect(exits.metrics).to include(failed: 0, length: 0)
      nothing_held
    end
  end

  it "F9 exit in a job is that job's failure; exit! ends the process, and another runs what it held" do
    server = start("-c", "2")
    push("exits", "exit", 3)
    expect(eventually { waiting("exits")&.then { |job| job if job[:error] } }).to include(error: start_with("SystemExit: exit\n"), retry_count: 0)
    push("exits!", "exit!", 9)
    expect(server.wait).to eq(9)
    exits.actions.delete(["exits!"])
    push("after", "sleep", 0)
    start("-c", "2")
    eventually { events("after").map(&:last) == %w[start end] }
  end

  it "F21 TERM with long jobs: what ends in time is done, the rest is handed back with its attempts kept" do
    random = Random.new(RSpec.configuration.seed)
    grace = 5 # a busy machine may give a process no time for seconds
    rounds = Figures.count(3, 100)
    done = 0
    rounds.times do |round|
      server = start("-c", "8", "-t", grace.to_s)
      lengths = Array.new(12) { |i| ["#{round}-#{i}", [0, 0.1, 0.5, 60].sample(random: random)] }.to_h
      lengths.each { |id, seconds| push(id, "sleep", seconds) }
      sleep(random.rand * 0.4)
      server.signal(:TERM)
      from = now
      expect(server.wait).to eq(0)
      expect(now - from).to be < grace + 20 # a job takes 60
      nothing_held

      lengths.each_key do |id|
        ended = events(id).map(&:last).include?("end")
        ended ? expect(waiting(id)).to(be_nil) && (done += 1) : expect(waiting(id)).to(include(retry_count: -1))
        expect(waiting(id)).not_to include(:error) unless ended
      end
      exits.actions.delete(lengths.keys)
      commands.each(&:remove).clear
    end
    expect(exits.metrics).to include(failed: 0, refused: 0)
    Figures.note("F21", "TERMs with jobs of 0 to 60 s, nothing left behind", rounds)
    Figures.note("F21", "of their jobs ended in time", done)
  end

  it "F22 a job in C that holds the interpreter's lock: another node runs it, and its late end is refused" do
    first = start("-c", "2")
    File.mkfifo("#{@journal}.gate")
    push("held", "hold")
    eventually { events("held").any? }
    second = start("-c", "2")
    eventually { events("held").map(&:first) == [first.pid, second.pid, second.pid] }
    File.write("#{@journal}.gate", "")
    eventually { events("held") == [[first.pid, "start"], [second.pid, "start"], [second.pid, "end"], [first.pid, "end"]] }
    eventually { exits.metrics[:refused] == 1 }
    expect(exits.metrics).to include(processed: 1, failed: 0, length: 0)
    second.stop
    push("after", "sleep", 0)
    eventually { events("after").map(&:first).uniq == [first.pid] }
    expect(first.stop).to eq(0)
  end

  it "F22 a job that never returns stops neither the others nor the process, shows where it is, and is void after ttr" do
    gate = Thread::Queue.new
    started = Thread::Queue.new
    recorder = worker("Never", ttr: 4, shards_count: 1) do |payloads, batch|
      started << batch.fence(payloads.keys.first)
      gate.pop if payloads.key?("never") && started.size == 1
    end
    server = serve(recorder, threads: 2)
    recorder.perform_async([{ id: "never" }])
    eventually { started.size == 1 }
    recorder.perform_async(Array.new(20) { |i| { id: i } })
    eventually { recorder.metrics[:processed] == 21 } # the 20, and the second run of the first
    gate << true
    eventually { recorder.metrics[:refused] == 1 }
    expect(recorder.metrics).to include(processed: 21, failed: 0, length: 0)
    expect(server.stop(30)).to be(true)
  end

  it "F32 on_server_init and last_words that raise end the start with its error", :slow do
    { "init" => [1, /no init/], "last_words" => [1, /last_words raised Exception: no words.*no init/m], "init exits" => [7, //] }.each do |hook, outcome|
      output, code = Command.run("-r", app, env: { "JOURNAL" => @journal, "HOOK" => hook })
      expect([code, output]).to match(outcome), hook
    end
    expect(Seriatim::Metrics.nodes).to eq([])
  end
end
