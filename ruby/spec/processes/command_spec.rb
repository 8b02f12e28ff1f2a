# frozen_string_literal: true

require_relative "support/processes_helper"

RSpec.describe "The command" do
  include ProcessesHelper

  before { queues(Command: { shards_count: 4 }) }

  # Runs it to its end. Gives the exit code and what it wrote.
  def outcome(*arguments, environment: {}, **workload)
    process = seriatim(*arguments, workload: { workers: @workers, **workload }, environment: environment)
    [process.wait, process.log]
  end

  def app = File.join(__dir__, "support", "app.rb")

  def file(name, text) = File.join(folder, name).tap { |path| File.write(path, text) }

  it "R-COMMAND-1: says what is wrong and exits 2 for wrong usage" do
    cases = { [] => /-r is missing/, ["-r", "/nowhere/app"] => %r{/nowhere/app: no such file},
              ["-r", app, "-q", "Unknown"] => /Unknown/, ["--frobnicate"] => /--frobnicate/, ["-r", app, "-c", "x"] => /-c x/,
              ["-r", app, "-c", "0"] => /threads/, ["-r", app, "-p", "0"] => /-p/, ["frobnicate"] => /unknown command frobnicate/,
              ["-r", file("none.rb", "Seriatim.workers = []")] => /worker/ }
    cases.each do |arguments, message|
      expect(outcome(*arguments)).to match([2, message]), arguments.inspect
    end
  end

  it "R-COMMAND-2: prints help and version and exits 0" do
    expect(outcome("-h")).to match([0, /Usage: seriatim VERB/])
    expect(outcome("-V")).to eq([0, "seriatim #{Seriatim::VERSION}\n"])
  end

  it "R-COMMAND-3: exits 2 with the place and the error when the application raises while it loads" do
    code, log = outcome("-r", file("broken.rb", "raise 'broken application'"))
    expect([code, log]).to match([2, /broken\.rb:1: .*broken application/])
  end

  it "R-COMMAND-4: exits 3 when no Redis answers" do
    environment = { "REDIS_URL" => "unix://#{folder}/nobody" }
    from = Journal.now
    expect(outcome("-r", app, environment: environment)).to match([3, /no Redis/])
    expect(outcome("stats", environment: environment)).to match([3, /no Redis/])
    expect(Journal.now - from).to be < 60
  end

  it "R-COMMAND-5: exits 3 in production without a URL, instead of starting a private Redis" do
    environment = { "REDIS_URL" => nil, "SERIATIM_REDIS_URL" => nil, "SERIATIM_DATA" => folder }
    expect(outcome("-r", app, "-e", "production", environment: environment)).to match([3, /REDIS_URL/])
    expect(outcome("-r", app, environment: { **environment, "RAILS_ENV" => "production" })).to match([3, /REDIS_URL/])
    expect(Dir.children(folder).grep(/\.aof|redis/)).to eq([])
  end

  it "runs -p 2 as two nodes, starts a killed one again and stops both at TERM" do
    server = start_server("-p", "2", lease: 10)
    pids = eventually { node_pids.then { |found| found if found.size == 2 } }
    push(:Command, "a", 1)
    drain
    Process.kill(:KILL, pids.first)
    journal.write(:killed, pids.first)
    eventually { node_pids.then { |found| found.size == 2 && found.none?(pids.first) } }
    1.upto(50) { |number| push(:Command, "id#{number}", 1) }
    drain
    last = node_pids
    expect(server.stop).to eq(0)

    expect(server.log).to match(/crash.*#{pids.first}.*SIGKILL/)
    expect(last.reject { |pid| gone?(pid) }).to eq([])
    expect(Seriatim::Metrics.nodes).to eq([])
    expect(verdict.strict_faults).to eq({})
  end

  def node_pids = Seriatim::Metrics.nodes.map { |node| node[:description][/pid (\d+)/, 1].to_i }

  def gone?(pid)
    Process.kill(0, pid)
    false
  rescue Errno::ESRCH
    true
  end
end
