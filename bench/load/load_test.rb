# frozen_string_literal: true

require "fileutils"
require_relative "../lib/contestant"
require_relative "../lib/gems"

# One run of the load test that a user of Lowkiq published: 5 producers, 250 items a second each, through two chained queues on
# two server processes of 50 threads.
class LoadTest
  PRODUCERS = 5
  RATE = 250.0
  NODES = 2
  THREADS = 50
  OURS = ["ruby", "-I", "#{Contestant::ROOT}/ruby/lib"].freeze
  APPS = __dir__

  # backlog: ids that wait in the first stage, at the worst; lags: seconds from push to the first stage's perform, sorted;
  # drained: seconds from the first push to the last item's end; done: items
  Result = Struct.new(:backlog, :second_backlog, :lags, :drained, :done, :pushed_in, keyword_init: true) do
    def lag(share) = lags[(lags.size * share).to_i.clamp(0, lags.size - 1)]
  end

  def self.server(app)
    return [*OURS, "#{Contestant::ROOT}/ruby/exe/seriatim", "-c", THREADS.to_s, "-r", "#{APPS}/seriatim.rb"] if app == "seriatim"

    ["ruby", "#{Gems::FOLDER}/bin/lowkiq", "-r", "#{APPS}/lowkiq.rb"]
  end

  def initialize(app, url, folder, items:, environment: {}, patience: 600)
    @app = app
    @folder = folder
    @items = items
    @patience = patience
    @environment = { "REDIS_URL" => url, "LOAD_FOLDER" => folder, "LOAD_THREADS" => THREADS.to_s,
                     **(app == "lowkiq" ? Gems::ENVIRONMENT : {}), **environment }
  end

  # @return [Result]
  def run
    FileUtils.rm_rf(Dir["#{@folder}/*"])
    servers = Array.new(NODES) { |node| start(LoadTest.server(@app), "server#{node}", "LOAD_NODE" => node.to_s) }
    sleep 3 # no figure hangs on it: the clock starts with the first push
    producers = Array.new(PRODUCERS) { |number| start(producer(number), "pushed#{number}") }
    producers.each { |thread| raise "a producer failed: #{log("pushed")}" unless thread.value.success? }
    wait(servers)
    result
  ensure
    stop(servers || [])
  end

  private

  def producer(number)
    count = @items / PRODUCERS
    [*(@app == "lowkiq" ? ["ruby"] : OURS), "#{APPS}/producer.rb", @app, (number * count).to_s, count.to_s, RATE.to_s]
  end

  def start(command, name, **environment)
    Process.detach(spawn(@environment.merge(environment.transform_keys(&:to_s)), *command, out: "#{@folder}/#{name}", err: "#{@folder}/#{name}.log"))
  end

  def wait(servers)
    deadline = now + @patience
    until lines("done").size >= @items
      raise "#{@app}: #{lines("done").size} of #{@items} after #{@patience} s: #{log("server")}" if now > deadline
      raise "a server has ended: #{log("server")}" unless servers.all?(&:alive?)

      sleep 0.5
    end
  end

  def stop(servers)
    servers.each { |server| Process.kill(:TERM, server.pid) if server.alive? }
    servers.each { |server| server.join(40) || Process.kill(:KILL, server.pid) }
  end

  def result
    pushed = Dir["#{@folder}/pushed?"].flat_map { |path| File.readlines(path) }.map { |line| line.split[1].to_f }.sort
    first, second, done = %w[first second done].map { |stage| lines(stage).map { |line| line.split.map(&:to_f) } }
    Result.new(backlog: worst(pushed, first.map(&:last)), second_backlog: worst(second.map { |row| row[1] }, second.map(&:last)),
               lags: first.map { |_, at, start| start - at }.sort, pushed_in: pushed.last - pushed.first,
               drained: done.map(&:last).max - pushed.first, done: done.map(&:first).uniq.size)
  end

  # The largest number that had come and not begun at any moment.
  def worst(came, began)
    waiting = most = 0
    (came.map { |time| [time, 1] } + began.map { |time| [time, -1] }).sort.each do |_, step|
      waiting += step
      most = waiting if waiting > most
    end
    most
  end

  def lines(stage) = File.exist?("#{@folder}/#{stage}") ? File.readlines("#{@folder}/#{stage}") : []
  def log(name) = Dir["#{@folder}/#{name}*.log"].map { |path| File.read(path)[-1500..] || File.read(path) }.join
  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
