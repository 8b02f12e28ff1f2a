# frozen_string_literal: true

require_relative "support/processes_helper"
require_relative "../../../spec/support/figures"

RSpec.describe "Signals" do
  include ProcessesHelper

  before { queues(Signal: { shards_count: 2 }) }

  let(:gate) { File.join(folder, "gate") }

  # A server of one thread that runs a job of `seconds` (nil: until the gate file exists), while another id waits.
  def busy_server(seconds, *arguments, **settings)
    server = start_server(*arguments, threads: 1, **settings)
    push(:Signal, "first", 1, **(seconds ? { sleep: seconds } : { wait: gate }))
    eventually { journal.starts.any? }
    push(:Signal, "second", 1)
    server
  end

  def record(id) = queue(:Signal).queries.fetch([id]).first

  it "F21, R-SIGNAL-1: at TERM let the job of 8 s complete, leave the queued one untouched and exit 0 in time" do
    server = busy_server(8)
    from = Journal.now
    expect(server.stop(60)).to eq(0)
    expect(Journal.now - from).to be < 22 # the deadline is at 25
    expect(journal.ends.map(&:id)).to eq(["first"])
    expect(journal.starts.map(&:id)).to eq(["first"])
    expect(record("first")).to be_nil
    expect(record("second")).to include(retry_count: -1)
  end

  it "F21, R-SIGNAL-2: hand a job back at the stop deadline of 1 s, its retry_count unchanged" do
    server = busy_server(30, "-t", "1")
    from = Journal.now
    expect(server.stop(60)).to eq(0)
    expect(Journal.now - from).to be_between(0.9, 22)
    expect(journal.ends).to eq([])
    expect(record("first")).to include(retry_count: -1)
    expect(record("first")).not_to include(:error)
    expect(server.log).to match(/what still ran after 1(\.0)? s: 1 id: \S+ first$/)
    expect(server.log).not_to include("Redis did not answer")
    expect(queue(:Signal).queries.processing_data).to eq([])
  end

  it "F21, R-SIGNAL-2: warn at the stop deadline that Redis does not answer, and exit 0" do
    server = busy_server(30, "-t", "1")
    Process.kill(:STOP, redis.pid)
    begin
      expect(server.stop(60)).to eq(0)
    ensure
      Process.kill(:CONT, redis.pid)
    end
    expect(server.log).to match(/^WARN .* warning Redis did not answer before the end/)
    expect(server.log).to match(/what still ran after 1(\.0)? s: 1 id: \S+ first$/)
  end

  it "F20, R-SIGNAL-3: exit at once at a second INT, and another server runs the job within the lease time" do
    server = busy_server(30, lease: 1)
    server.signal(:INT)
    eventually { node_of(server)&.fetch(:state) == "stopping" } # both signals would be one before that
    throughout(0.2) { server.alive? }
    from = Journal.now
    server.signal(:INT)
    expect(server.wait(60)).to eq(1)
    expect(Journal.now - from).to be < 20 # the deadline is at 25
    expect(server.log).to match(/^seriatim: a second signal ended the process at once; unfinished: 1 id: \S+ first$/)
    heir = start_server(lease: 1)
    eventually { journal.starts(nil, "first").any? { |start| start.pid == heir.pid } }
    expect(journal.starts(nil, "first").last.retry_count).to eq(-1)
    heir.kill
  end

  it "R-SIGNAL-4: claim no more after TSTP: what runs ends, what waits goes to another server" do
    server = busy_server(nil)
    server.signal(:TSTP)
    eventually { server.log.include?(" quiet ") }
    push(:Signal, "third", 1)
    other = start_server
    FileUtils.touch(gate)
    drain
    by_id = journal.starts.to_h { |start| [start.id, start.pid] }
    expect(by_id).to eq("first" => server.pid, "second" => other.pid, "third" => other.pid)
    expect(server.alive?).to be(true)
    expect([server.stop, other.stop]).to eq([0, 0])
    expect(verdict.strict_faults).to eq({})
  end

  def node_of(server) = Seriatim::Metrics.nodes.find { |node| node[:description].include?(" pid #{server.pid} ") }

  it "claim no more when the dashboard asks for it, and go on with what runs" do
    server = busy_server(nil)
    node = node_of(server)
    expect([node[:state], Seriatim.quiet_node(node[:name]), Seriatim.quiet_node("nobody")]).to eq(["working", true, false])
    eventually { node_of(server)[:state] == "quiet" }
    expect(server.log).to match(/ quiet .*requested from the dashboard/)
    other = start_server
    FileUtils.touch(gate)
    drain
    expect(journal.starts.to_h { |start| [start.id, start.pid] }).to eq("first" => server.pid, "second" => other.pid)
    expect(server.log.scan("requested from the dashboard").size).to eq(1)
    expect([server.stop, other.stop]).to eq([0, 0])
    expect(verdict.strict_faults).to eq({})
  end

  it "R-SIGNAL-6: stop when the dashboard asks for it, as at TERM: what runs ends, what waits stays, exit code 0" do
    server = busy_server(nil)
    name = node_of(server)[:name]
    expect(Seriatim.stop_node(name)).to be(true)
    eventually { node_of(server)[:state] == "stopping" }
    expect([Seriatim.stop_node(name), Seriatim.quiet_node(name)]).to eq([true, true])
    expect(journal.ends).to eq([])
    FileUtils.touch(gate)
    expect(server.wait(60)).to eq(0)
    expect(journal.ends.map(&:id)).to eq(["first"])
    expect([record("first"), record("second")]).to match([nil, include(retry_count: -1)])
    expect(server.log.scan("requested from the dashboard").size).to eq(1)
    expect([Seriatim.stop_node(name), Seriatim::Metrics.nodes]).to eq([false, []])
  end

  it "let the supervisor start a process again that the dashboard stopped" do
    server = start_server("-p", "2", threads: 1)
    first, second = eventually { (nodes = Seriatim::Metrics.nodes.map { |node| node[:name] }).size == 2 && nodes }
    expect(Seriatim.stop_node(first)).to be(true)
    eventually { (names = Seriatim::Metrics.nodes.map { |node| node[:name] }).size == 2 && names.include?(second) && !names.include?(first) }
    expect(server.log).to match(/^INFO .* stop process \d \(pid \d+\) ended: exit 0/)
    expect(server.log).not_to include(" crash ")
    expect(server.stop).to eq(0)
  end

  it "hand back at the deadline what runs when the dashboard asked it to stop" do
    server = busy_server(nil, "-t", "1")
    expect(Seriatim.stop_node(node_of(server)[:name])).to be(true)
    expect(server.wait(60)).to eq(0)
    expect(server.log).to include("what still ran after 1.0 s: 1 id: ")
    expect(record("first")).to include(retry_count: -1)
  end

  it "F24, R-SIGNAL-5: write every thread's backtrace at each of 100 TTINs under load, without harm", limit: 600 do
    times = Figures.count(100, 1000)
    server = start_server(threads: 5)
    enough = File.join(folder, "enough")
    producer = spawn_producer(:Signal, (1..20).map { |number| "id#{number}" }, until_file: enough, pause: 0.005)
    eventually { journal.ends.any? }
    1.upto(times) do |number|
      server.signal(:TTIN)
      eventually { server.log.scan(/ thread main /i).size >= number || server.log.scan(/ seriatim heartbeat /).size >= number }
    end
    FileUtils.touch(enough)
    expect(producer.wait).to eq(0)
    drain
    expect(server.stop).to eq(0)

    expect(server.log.scan(/ seriatim \d+ /).size).to be >= times * 5
    expect(server.log).to match(/workload\.rb|host\.rb/)
    expect(verdict.strict_faults).to eq({})
  end

  [[], %w[-p 2]].each do |arguments|
    it "end a process that a job forked, and not the server, when TERM or INT is sent to that process #{arguments.join(" ")}" do
      server = start_server(*arguments, threads: 1)
      %i[TERM INT].each.with_index(1) do |signal, number|
        push(:Signal, "first", number, fork: 60)
        Process.kill(signal, eventually { journal.starts.size == number && children(journal.starts.last.pid).first })
        eventually(20) { journal.ends.size == number }
      end
      expect(server.alive?).to be(true)
      expect(server.stop).to eq(0)
    end
  end

  it "let jobs finish though a service manager sends TERM to the supervisor and to each of its processes" do
    server = start_server("-p", "2", threads: 1)
    push(:Signal, "first", 1, sleep: 1)
    eventually { journal.starts.any? }
    children(server.pid).each { |pid| Process.kill(:TERM, pid) }
    pause(0.2) # or both would be one
    server.signal(:TERM)
    expect(server.wait(60)).to eq(0)
    expect(journal.ends.map(&:id)).to eq(["first"])
  end

  # Of whatever thread.
  def children(pid) = Dir["/proc/#{pid}/task/*/children"].flat_map { |path| File.read(path).split.map(&:to_i) }
end
