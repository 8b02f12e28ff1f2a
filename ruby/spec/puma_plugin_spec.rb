# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"

# PUMA: the command of another version than the installed one, such as /opt/gems/bin/puma with its GEM_PATH.
RSpec.describe "plugin :seriatim for Puma", :slow, limit: 240 do
  before { skip "no puma: apt-get install puma" unless system("command -v #{puma_command} >/dev/null") }

  around { |example| Dir.mktmpdir("seriatim-puma") { |folder| (@folder = folder) && example.run } }
  after do |example|
    puts log_text if example.exception
    @pid && Process.kill(:KILL, @pid) && Process.wait(@pid)
  rescue Errno::ESRCH, Errno::ECHILD
    nil
  end

  def puma_command = ENV.fetch("PUMA", "puma")
  def write(name, text) = File.write(File.join(@folder, name), text)
  def log_text = File.read(File.join(@folder, "log"))
  def pids = log_text.scan(/start node \S+?-(\d+)-\h+ /).flatten.map(&:to_i)
  def queue = @queue ||= worker("BesidePuma")

  def alive?(pid)
    Process.kill(0, pid)
    File.read("/proc/#{pid}/stat")[/\) (\w)/, 1] != "Z"
  rescue Errno::ESRCH, Errno::ENOENT
    false
  end

  # Puma with the plugin, once the first server runs.
  def start_puma(*options)
    write("config.ru", 'run ->(_env) { File.write("request", "") && sleep(2) && [200, { "content-type" => "text/plain" }, []] }')
    write("app.rb", <<~RUBY)
      module BesidePuma
        extend Seriatim::Worker
        def self.perform(payloads_by_id) = File.write("begun", "") && sleep(payloads_by_id.values.flatten.sum) && File.write("ended", "")
      end
    RUBY
    write("puma.rb", %(plugin :seriatim\nseriatim_arguments "-r", "./app.rb"\n))
    @pid = spawn({ **Command::NEUTRAL, "REDIS_URL" => REDIS.url, "RUBYLIB" => Command::PATHS.map { |path| File.expand_path(path) }.join(":") },
                 puma_command, "-C", "puma.rb", "-t", "1:1", "-b", "unix://#{@folder}/socket", *options,
                 chdir: @folder, out: File.join(@folder, "log"), err: %i[child out])
    eventually { pids.size == 1 || (Process.wait(@pid, Process::WNOHANG) && raise("Puma has ended")) }
  end

  # A request of 2 seconds.
  def request
    UNIXSocket.new(File.join(@folder, "socket")).write("GET / HTTP/1.0\r\n\r\n")
    eventually { done?("request") }
  end

  def run_job(seconds)
    queue.perform_async([{ id: 1, payload: seconds }])
    eventually { done?("begun") }
  end

  def done?(name) = File.exist?(File.join(@folder, name))

  def wait_for_puma
    _, status = Timeout.timeout(60) { Process.wait2(@pid) }
    @pid = nil
    status
  end

  it "R-PUMA-1: starts the server when Puma has booted, and stops it with Puma" do
    start_puma
    run_job(0.5)
    Process.kill(:TERM, @pid)
    wait_for_puma
    expect(pids.map { |pid| alive?(pid) }).to eq([false])
    expect(log_text).to include("stop stopped")
    expect(done?("ended")).to be(true)
    expect(queue.metrics.values_at(:length, :busy)).to eq([0, 0])
  end

  it "R-PUMA-1: lets jobs finish though Puma waits for its requests while it stops" do
    start_puma
    run_job(4)
    request
    Process.kill(:TERM, @pid)
    wait_for_puma
    expect(done?("ended")).to be(true)
  end

  it "R-PUMA-1: lets jobs finish though a service manager sends TERM to Puma and to the server" do
    start_puma("-w", "1")
    run_job(4)
    request
    Process.kill(:TERM, pids.first, @pid)
    wait_for_puma
    expect(done?("ended")).to be(true)
  end

  it "R-PUMA-1: restarts the server with Puma, in a phased restart, too" do
    start_puma("-w", "1")
    %i[USR1 USR2].each_with_index do |signal, place|
      Process.kill(signal, @pid)
      eventually { pids.size == place + 2 && pids[..place].none? { |pid| alive?(pid) } }
    end
    Process.kill(:INT, @pid)
    wait_for_puma
    expect(pids.size).to eq(3)
    expect(pids.none? { |pid| alive?(pid) }).to be(true)
  end

  it "R-PUMA-2: stops Puma with exit code 1 when the server is killed" do
    start_puma
    Process.kill(:KILL, pids.first)
    expect(wait_for_puma.exitstatus).to eq(1)
    expect(log_text).to match(/! seriatim \(pid \d+\) ended with SIGKILL.*: Puma stops, too/)
  end

  it "R-PUMA-2: starts the server again when an operator has stopped it" do
    start_puma
    eventually { Seriatim.stop_node(log_text[/start node (\S+)/, 1]) } # it may not have registered yet
    eventually { pids.size == 2 }
    expect(log_text).to include("it is started again")
    Process.kill(:TERM, @pid)
    wait_for_puma
  end

  it "R-PUMA-3: stops the server when Puma is killed" do
    start_puma
    Process.kill(:KILL, @pid)
    wait_for_puma
    eventually { pids.none? { |pid| alive?(pid) } }
    expect(log_text).to include("stop stopped")
  end

  it "R-PUMA-3: lets jobs finish when Puma is killed while the server stops" do
    start_puma
    run_job(3)
    Process.kill(:TERM, pids.first)
    sleep 1.2 # or the two signals would be one
    Process.kill(:KILL, @pid)
    wait_for_puma
    eventually { pids.none? { |pid| alive?(pid) } }
    expect(done?("ended")).to be(true)
  end
end
