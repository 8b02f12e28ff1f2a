# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"
require_relative "../../spec/support/figures"

RSpec.describe "a web server that forks", :slow do # ASan does not survive a fork of threads
  before { skip "no puma: apt-get install puma" unless system("command -v puma >/dev/null") }

  # Puma's cluster of 2 processes of 2 threads, the application loaded before the fork.
  def puma
    folder = Dir.mktmpdir("seriatim-puma")
    socket = File.join(folder, "puma")
    config = File.join(folder, "config.rb")
    File.write(config, "preload_app!\nbefore_fork { PumaWorker.perform_async([{ id: 'before fork' }]) }\n")
    pid = spawn({ **Command::NEUTRAL, "REDIS_URL" => REDIS.url, "RUBYLIB" => Command::PATHS.join(":") },
                "puma", "-C", config, "-w", "2", "-t", "2:2", "-b", "unix://#{socket}", File.join(__dir__, "support/puma_app.ru"),
                out: File.join(folder, "log"), err: %i[child out])
    eventually { File.exist?(socket) && File.read(File.join(folder, "log")).scan(/Worker \d .*booted/).size == 2 }
    yield socket, pid
  ensure
    puts File.read(File.join(folder, "log")) if $!
    Process.kill(:TERM, pid) && Process.wait(pid) if pid
    FileUtils.rm_rf(folder)
  end

  def get(socket, path)
    UNIXSocket.open(socket) do |io|
      io.write("GET /#{path} HTTP/1.0\r\n\r\n")
      head, body = io.read.split("\r\n\r\n", 2)
      [body, head[/X-Pid: (\d+)/i, 1].to_i]
    end
  end

  it "F19 a preloaded application pushes from Puma's processes and from their parent, and no answer is another's" do
    count = Figures.count(200, 2000)
    puma do |socket, pid|
      expect(get(socket, "parent").first.to_i).to eq(pid)
      answers = Array.new(4) { |t| Thread.new { Array.new(count / 4) { |i| get(socket, "#{t}-#{i}") } } }.flat_map(&:value)
      expect(answers.map(&:first).tally).to eq("right" => count)
      expect(answers.map(&:last).uniq.size).to eq(2)

      Process.kill(:KILL, answers.last.last) # its successor is forked while the parent pushes
      again = eventually { (1..20).map { |i| get(socket, "again-#{i}-#{now}") }.then { |all| all if all.map(&:last).uniq.size == 2 } }
      expect(again.map(&:first).uniq).to eq(["right"])
      expect(parents_pushes).to be > 20
    end
  end

  # Each number once, in order: nothing of the parent's was lost, doubled or answered to another.
  def parents_pushes
    stub = worker("PumaWorker", fold: :list)
    expect(stub.queries.fetch(["boot"]).size).to eq(1)
    numbers = stub.queries.fetch(["parent"]).first[:payloads].map(&:first)
    expect(numbers).to eq((1..numbers.size).to_a)
    numbers.size
  end
end
