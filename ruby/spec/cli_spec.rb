# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"

RSpec.describe "the command", limit: 400 do
  around { |example| Dir.mktmpdir { |dir| (@dir = dir) && example.run } }
  after { (@commands || []).each(&:remove) }

  APP = <<~RUBY
    require "seriatim"
    module CliWorker
      extend Seriatim::Worker
      self.shards_count = 2
      def self.retry_in(_count) = 0.1
      def self.perform(payloads_by_id)
        payloads_by_id.each do |id, payloads|
          File.open(ENV.fetch("TRACE"), "a") { |f| f.puts("\#{id} begin \#{payloads.inspect} \#{Process.pid}") }
          Process.kill(:KILL, Process.pid) if id == "kill"
          sleep ENV.fetch("SLEEP", "0").to_f
          File.open(ENV.fetch("TRACE"), "a") { |f| f.puts("\#{id} end") }
        end
      end
    end
    Seriatim.lease_time = 10
    Seriatim.poll_interval = 0.2
    Seriatim.last_words = ->(error) { puts "last words: \#{error.message}" }
  RUBY

  def app(more = "") = write("app.rb", APP + more)
  def write(name, text) = File.join(@dir, name).tap { |path| FileUtils.mkdir_p(File.dirname(path)) && File.write(path, text) }
  def trace = File.exist?(trace_path) ? File.read(trace_path) : ""
  def trace_path = File.join(@dir, "trace")
  def queue = @queue ||= worker("CliWorker", shards_count: 2)

  def start(*arguments, env: {}, **options)
    command = Command.new("-r", app, *arguments, env: { "TRACE" => trace_path, **env }, **options)
    (@commands ||= []) << command
    command
  end

  describe "R-COMMAND-1: wrong usage and exit codes" do
    it "says what is missing or unknown, with exit code 2" do
      {
        [] => /-r is missing/, ["--bogus"] => /invalid option: --bogus$/,
        ["--theads", "5"] => /invalid option: --theads \(did you mean --threads\?\)$/, ["bogus"] => /unknown command bogus; there are server, push/,
        ["-r", "/no/such"] => %r{-r /no/such: no such file}, ["-r", @dir] => /holds no config\/environment\.rb/,
        ["-r", write("empty.rb", "require 'seriatim'; Seriatim.workers = []")] => /no workers/,
        ["-r", app, "-q", "other"] => /unknown queue "other"; there are "CliWorker"/, ["-r", app, "-c", "0"] => /threads_per_node must be/,
        ["-c", "many"] => /invalid argument: -c many/, ["-r", app, "-p", "01777"] => /-p must be an Integer from 1 to 1000, not 1777/, ["-C", "/no/such.yml"] => /No such file/, ["balance", "q", "7"] => /unknown command balance/,
        ["push", "q", "1", "--create", "--shards", "0"] => /--shards must be an Integer from 1 to 4096, not 0/,
        ["push", "CliWorker", "1", "-r", app, "--create", "--shards", "7"] => /--shards 7: the application's worker has shards_count \d/,
        ["import", "lowkiq", "q", "--create", "--shards", "4097"] => /--shards must be an Integer from 1 to 4096, not 4097/,
        ["web", "x"] => /unexpected x/, ["push", "q"] => /usage: seriatim push QUEUE ID/, ["push", "q", "1", "paid"] => /not valid JSON/,
        ["explain", "nowhere", "1"] => /unknown queue "nowhere"/, ["stats", "nowhere"] => /unknown queue "nowhere"/,
        ["-C", write("bad.yml", "theads: 5")] => /unknown key theads; known are require, threads/
      }.each { |arguments, message| expect(Command.run(*arguments)).to match([message, 2]) }
    end

    it "names the place in the application in one line, without a backtrace or a hint at the options" do
      {
        "self.shards_count = 0" => /4: FaultyWorker\.shards_count must be an Integer from 1 to 4096, not 0 \(Integer\)/,
        "self.fold = :join" => /4: FaultyWorker\.fold must be one of merge, list, last, first, not :join \(Symbol\)/,
        "self.shard_count = 2" => /4: FaultyWorker has no setting shard_count \(did you mean shards_count\?\)/,
        "Seriatim.lease_tme = 2" => /4: Seriatim has no setting lease_tme \(did you mean lease_time\?\)/,
        "perform_asynk([])" => /4: FaultyWorker has no method perform_asynk \(did you mean perform_async\?\)/,
        "extend Seriatim::Workr" => /4: uninitialized constant Seriatim::Workr \(did you mean Seriatim::Worker\?\)/,
        "def self.x = 1; raise unless ni.nil?" => /4: undefined local variable or method .ni. for .*/,
        "require 'no_such_library'" => /4: cannot load such file -- no_such_library/,
        "JSON.parse('{')" => /4: JSON::ParserError: .*/,
        "raise 'no | database'.sub('|', 10.chr)" => /4: RuntimeError: no  \|  database/,
        "raise NotImplementedError" => /4: NotImplementedError: NotImplementedError/,
        "def self.deep = deep; deep" => /4: SystemStackError: stack level too deep/,
        "require_relative 'no_such_file'" => %r{4: cannot load such file -- /.*/no_such_file},
        "def (" => /\d: syntax error.*/
      }.each do |line, text|
        path = write("faulty.rb", "require 'seriatim'\nmodule FaultyWorker\n  extend Seriatim::Worker\n  #{line}\nend\n")
        expect(Command.run("-r", path)).to match([/\Aseriatim: #{Regexp.escape(path)}:#{text}\n\z/, 2]), line
      end
      expect(Command.run("-v", "-r", File.join(@dir, "faulty.rb"))).to match([/\Aseriatim: .*syntax error.*^ +from /m, 2])
    end

    it "R-COMMAND-3: ends as the application says that exits, or lets an error of Redis pass, while it is loaded" do
      { "exit 7" => ["", 7], "raise Seriatim::ConnectionError, 'no such host'" => ["seriatim: no Redis: no such host\n", 3],
        "raise Seriatim::TimeoutError, 'no answer'" => ["seriatim: no Redis: no answer\n", 3],
        "raise Seriatim::TimeoutError, 'timed out: the id'" => ["seriatim: timed out: the id\n", 1], # Redis answers
        "raise Seriatim::RedisFull, 'full'" => ["seriatim: full\n", 1] }.each do |line, ended|
        expect(Command.run("-r", write("ending.rb", "require 'seriatim'\n#{line}\n"))).to eq(ended)
      end
    end

    it "says in one line that a worker has no perform" do
      path = write("bare.rb", "require 'seriatim'\nmodule BareWorker\n  extend Seriatim::Worker\nend\n")
      expect(Command.run("-r", path)).to match([/\Aseriatim: workers: BareWorker has no public perform; write `def self\.perform.*\n\z/, 2])
    end

    it "names a missing file of -C in words of its own" do
      expect(Command.run("-C", "/no/such.yml").first).to start_with("seriatim: -C /no/such.yml: No such file or directory\n")
    end

    it "prints help and version" do
      expect(Command.run("-h")).to match([/Usage: seriatim VERB.*-r PATH/m, 0])
      expect(Command.run("-V")).to eq(["seriatim #{Seriatim::VERSION}\n", 0])
    end

    it "has exit code 3 without Redis" do
      nowhere = "redis://127.0.0.1:1"
      told = %r{^seriatim: no Redis: cannot connect to #{nowhere}/0: Connection refused; start Redis there, or correct REDIS_URL\n\z}
      expect(Command.run("push", "q", "1", redis: nowhere)).to match([told, 3])
      expect(Command.run("-r", app, redis: nowhere)).to match([/last words:.*#{told}/m, 3])
      expect(Command.run("stats", "-r", write("own.rb", "require 'seriatim'; Seriatim.redis = '#{nowhere}'"), redis: nil))
        .to match([/no Redis: .*; start Redis there, or correct Seriatim\.redis$/, 3])
    end

    it "has exit code 1, and last words, when it crashes" do
      path = app("Seriatim.on_server_init = -> { raise 'no database' }\n")
      expect(Command.run("-r", path)).to match([/last words: no database.*RuntimeError/m, 1])
    end

    it "R-COMMAND-3: tells a server that waited in vain for ids that move from one without Redis" do
      { "timed out: the id" => [/last words: timed out: the id.*TimeoutError/m, 1], "no answer" => [/^seriatim: no Redis: no answer$/, 3] }.each do |text, ended|
        output, code = Command.run("-r", app("Seriatim.on_server_init = -> { raise Seriatim::TimeoutError, '#{text}' }\n"))
        expect([output, code]).to match(ended)
        expect(output).not_to include("no Redis") if code == 1 # Redis answers
      end
    end
  end

  it "has exit code 1, and does not say that there is no Redis, where there is no thread for a server" do
    path = app(<<~RUBY)
      Seriatim.const_get(:Native)::Runner.class_eval do
        def start = raise(Seriatim::ConnectionError, "cannot start a thread: Resource temporarily unavailable")
      end
    RUBY
    output, code = Command.run("-r", path)
    expect([output, code]).to match([/cannot start a thread: Resource temporarily unavailable \(Seriatim::Error\)/, 1])
    expect(output).not_to include("no Redis")
  end

  describe "signals" do
    it "R-SIGNAL-1: completes what runs and leaves what is queued at TERM" do
      server = start("-c", "1", env: { "SLEEP" => "5" })
      queue.perform_async([{ id: "a" }]) && eventually { trace.include?("a begin") }
      queue.perform_async([{ id: "b" }])
      started = now
      expect(server.stop).to eq(0)
      expect(now - started).to be < 22 # the deadline is at 25
      expect(trace).to match(/a end/)
      expect(trace).not_to match(/b begin/)
      expect(queue.queries.fetch(["b"])).to match([include(retry_count: -1)])
      expect(queue.metrics).to include(busy: 0, processed: 1)
    end

    it "R-SIGNAL-2: hands back what still runs at the deadline, its retry_count unchanged" do
      server = start("-t", "0.5", env: { "SLEEP" => "30" })
      queue.perform_async([{ id: "a" }]) && eventually { trace.include?("a begin") }
      started = now
      expect(server.stop("INT")).to eq(0)
      expect(now - started).to be < 20
      expect(queue.queries.fetch(["a"])).to match([include(retry_count: -1)])
    end

    it "R-SIGNAL-3: exits at once at a second INT, and another server takes over" do
      server = start(env: { "SLEEP" => "30" })
      queue.perform_async([{ id: "a" }]) && eventually { trace.include?("a begin") }
      server.signal_taken("INT")
      sleep 0.2
      started = now
      expect(server.stop("INT")).to eq(1)
      expect(now - started).to be < 20 # the deadline is at 25
      start
      eventually { trace.include?("a end") }
    end

    it "R-SIGNAL-4, R-SIGNAL-5: claims no more after TSTP and writes every thread's backtrace at TTIN" do
      server = start
      server.signal("TSTP")
      server.wait_for(/quiet/)
      server.signal("TTIN")
      server.wait_for(/thread seriatim heartbeat.*heartbeat_loop/)
      server.wait_for(/thread seriatim 0/)
      queue.perform_async([{ id: "a" }])
      sleep 0.7
      expect(trace).to eq("")
      expect(server.stop).to eq(0)
    end
  end

  it "takes settings from a file with ERB, by environment" do
    config = write("seriatim.yml", <<~YAML)
      require: #{app}
      threads: <%= 1 + 1 %>
      verbose: true
      staging:
        threads: 3
        log_format: json
    YAML
    server = Command.new("-C", config, "-e", "staging", env: { "TRACE" => trace_path }, wait: false)
    (@commands ||= []) << server
    expect(server.wait_for(/"event":"start","msg":"node .* with 3 threads runs CliWorker/)).to be_truthy
    queue.perform_async([{ id: "a" }])
    server.wait_for(/"lvl":"DEBUG".*"event":"done".*"id":"a"/)
    expect(server.stop).to eq(0)
  end

  it "takes RAILS_MAX_THREADS as the number of threads, unless it is empty" do
    log = ->(value) { start(env: { "RAILS_MAX_THREADS" => value }).wait_for(/with \d+ threads runs CliWorker/)[/\d+ threads/] }
    expect(["7", ""].map(&log)).to eq(["7 threads", "5 threads"])
  end

  it "refuses a RAILS_MAX_THREADS that is no number of threads, by its name, unless -c wins" do
    %w[five 8x 8.9 0 10001].each do |value|
      told = /\Aseriatim: RAILS_MAX_THREADS must be an integer from 1 to 10000, not "#{value}" \(String\)$/
      expect(Command.run("-r", app, env: { "RAILS_MAX_THREADS" => value })).to match([told, 2])
    end
    expect(start("-c", "7", env: { "RAILS_MAX_THREADS" => "five" }).wait_for(/with \d+ threads/)).to eq("with 7 threads")
  end

  it "logs each job with -v, and not without" do
    loud = start("-v")
    queue.perform_async([{ id: "a" }])
    loud.wait_for(/DEBUG .* q=CliWorker id=a n=1 .*start/)
    loud.wait_for(/DEBUG .* q=CliWorker id=a n=1 elapsed=\d+\.\d+ done/)
    loud.stop
    quiet = start
    queue.perform_async([{ id: "b" }])
    eventually { trace.include?("b end") }
    expect(quiet.stop).to eq(0)
    expect(quiet.log).not_to match(/ id=/)
  end

  describe "with -p" do
    def pids(command) = command.log.scan(/process \d+ of \d+ has pid (\d+)/).flatten.map(&:to_i)

    it "R-PROCESS-1: runs several processes and stops them all" do
      server = start("-p", "2", "-c", "1")
      eventually { Seriatim::Metrics.nodes.size == 2 }
      queue.perform_async(Array.new(40) { |i| { id: i } })
      eventually { trace.scan(/ end/).size == 40 }
      expect(server.stop).to eq(0)
      expect(pids(server)).to all(satisfy { |pid| Process.kill(0, pid) && false rescue true })
      expect(queue.metrics).to include(length: 0, busy: 0, processed: 40)
    end

    it "R-PROCESS-2: starts a crashed process again, which goes on with its jobs" do
      server = start("-p", "2")
      eventually { Seriatim::Metrics.nodes.size == 2 }
      Process.kill(:KILL, pids(server).first)
      server.wait_for(/crash process 1/)
      eventually { pids(server).size == 3 }
      queue.perform_async(Array.new(10) { |i| { id: i } })
      eventually { trace.scan(/ end/).size == 10 }
      expect(server.stop).to eq(0)
    end

    # Its third fork fails, and what cannot be started is tried again after a second.
    def app_without_memory
      app(<<~RUBY)
        Seriatim.const_get(:Supervisor).class_eval { remove_const(:LONGEST_PAUSE) && const_set(:LONGEST_PAUSE, 1) }
        starts = 0
        fails = Module.new { define_method(:fork) { |&work| (starts += 1) == 3 ? raise(Errno::EAGAIN) : super(&work) } }
        Process.singleton_class.prepend(fails)
      RUBY
    end

    it "R-PROCESS-2: tries a process that cannot be started again later, and the others go on" do
      server = Command.new("-r", app_without_memory, "-p", "2", env: { "TRACE" => trace_path })
      (@commands ||= []) << server
      eventually { Seriatim::Metrics.nodes.size == 2 }
      first, second = pids(server)
      Process.kill(:KILL, first)
      server.wait_for(/^ERROR .*crash process 1 of 2 cannot be started: Errno::EAGAIN: Resource temporarily unavailable/)
      eventually { pids(server).size == 3 }
      expect(Process.kill(0, second)).to eq(1)
      expect(server.stop).to eq(0)
    end

    it "R-SIGNAL-4: a process that is started again after TSTP claims nothing" do
      server = Command.new("-r", app("Seriatim.lease_time = 3\n"), "-p", "2", env: { "TRACE" => trace_path })
      (@commands ||= []) << server
      eventually { Seriatim::Metrics.nodes.size == 2 }
      server.signal("TSTP")
      eventually { server.log.scan(" quiet ").size == 2 }
      queue.perform_async([{ id: "a" }])
      pids(server).each { |pid| Process.kill(:KILL, pid) }
      eventually { server.log.scan("start node").size == 4 && server.log.scan(" quiet ").size == 4 }
      sleep 4 # longer than the lease of the killed ones
      expect(trace).to eq("")
      expect(server.stop).to eq(0)
    end

    # Redis is away while there is a file, from whose first look on the supervisor's clock is a minute ahead.
    def app_without_redis
      app(<<~RUBY)
        def away? = File.exist?("\#{__dir__}/away")
        Seriatim.on_server_init = -> { raise Seriatim::ConnectionError, "away" if away? }
        Seriatim.const_get(:Supervisor).class_eval do
          real = instance_method(:monotonic)
          define_method(:monotonic) { (@later ||= (60 if away?)).to_i + real.bind_call(self) }
        end
      RUBY
    end

    it "R-PROCESS-2: starts a process that finds no Redis again while another one has served for a minute" do
      server = Command.new("-r", app_without_redis, "-p", "2", env: { "TRACE" => trace_path })
      (@commands ||= []) << server
      eventually { server.log.scan("start node").size == 2 }
      first, second = pids(server)
      write("away", "")
      Process.kill(:KILL, first)
      server.wait_for(/crash process 1 \(pid \d+\) ended: exit 3/)
      File.delete(File.join(@dir, "away"))
      eventually { server.log.scan("start node").size == 3 }
      expect(Process.kill(0, second)).to eq(1)
      expect(server.stop).to eq(0)
    end

    it "R-PROCESS-3: ends its processes when the supervisor dies" do
      server = start("-p", "2")
      eventually { Seriatim::Metrics.nodes.size == 2 }
      children = pids(server)
      Process.kill(:KILL, server.pid)
      eventually { children.none? { |pid| Process.kill(0, pid) && File.read("/proc/#{pid}/stat") !~ /\) Z/ rescue false } }
    end
  end

  it "R-CRASH-2, R-CRASH-3: another server runs the jobs of a killed one, and a job that kills every time is buried", :slow do
    queue.max_retry_count = 1
    path = app("CliWorker.max_retry_count = 1\nSeriatim.dump_error = ->(text) { \"<\#{text}>\" }\n")
    server = Command.new("-r", path, "-p", "2", "-c", "2", env: { "TRACE" => trace_path })
    (@commands ||= []) << server
    queue.perform_async([{ id: "kill" }] + Array.new(100) { |i| { id: "good#{i}" } })
    eventually(150) { queue.metrics[:morgue_length] == 1 }
    expect(queue.queries.morgue_fetch(["kill"])).to match([include(error: "<worker died>")])
    eventually { queue.metrics.values_at(:length, :busy).sum.zero? }
    expect((0...100).map { |i| "good#{i} end" } - trace.lines.map(&:chomp)).to eq([])
    expect(trace.scan(/^kill begin/).size).to be <= 4
    expect(server.stop).to eq(0)
  end

  describe "the operators' commands" do
    def seriatim(*arguments) = Command.run(*arguments)

    it "R-QUEUE-1: queues delete removes a queue that holds something only when its name is repeated" do
      gone = worker("Gone")
      gone.perform_async([{ id: 1 }])
      expect(seriatim("queues", "delete", "Gone")).to match([/holds 1 ids/, 2])
      expect(seriatim("queues", "delete", "Gone", "--force", "Other")).to match([/must name the queue/, 2])
      expect(seriatim("queues", "delete", "Gone", "--force", "Gone")).to eq(["deleted the queue \"Gone\"\n", 0])
      expect(seriatim("queues", "delete", "Gone")).to match([/unknown queue "Gone"/, 2])
      expect(gone.queue.shards_count).to eq(0)
      gone.perform_async([{ id: 2 }])
      expect(gone.metrics).to include(length: 1)
    end

    it "R-QUEUE-2: queues delete refuses a queue that a server serves" do
      server = start
      expect(seriatim("queues", "delete", "CliWorker")).to match([/serves the queue; stop it first/, 2])
      expect(server.stop).to eq(0)
      expect(seriatim("queues", "delete", "CliWorker")).to eq(["deleted the queue \"CliWorker\"\n", 0])
    end

    it "R-QUEUE-3: no push fails while queues delete deletes its queue" do
      busy = worker("Busy", shards_count: 7)
      busy.perform_async([{ id: 0 }])
      ended = false
      pushed = Thread.new { (1..).each { |id| break id if ended; busy.perform_async([{ id: id }]) } }
      5.times { expect(seriatim("queues", "delete", "Busy", "--force", "Busy").last).to eq(0).or eq(2) }
      ended = true
      expect(pushed.value).to be > 1
      expect(seriatim("queues", "delete", "Busy", "--force", "Busy").last).to eq(0)
      busy.perform_async([{ id: 1 }])
      expect(busy.metrics).to include(length: 1)
      expect(seriatim("check")).to match([/0 findings/, 0])
    end

    it "run push, stats, explain, pause, resume and check" do
      expect(seriatim("push", "Shell", "1")).to match([/unknown queue "Shell"/, 2])
      expect(worker("Shell").queue.shards_count).to eq(0)
      expect(seriatim("push", "Shell", "1", '{"b":1,"a":2}', "--delay", "60", "--score", "7", "--create")).to eq(["added 1, folded 0, refused 0\n", 0])
      expect(seriatim("push", "Shell", "1", "-v")).to match([/folded 1/, 0])
      shell = worker("Shell")
      expect(shell.queries.fetch([1]).first).to include(payloads: [[{ "a" => 2, "b" => 1 }, 7.0], ["", be_a(Float)]])
      expect(shell.queue.shards_count).to eq(5)
      expect(seriatim("stats")).to match([/^queue +length.*^Shell +1 +1 +0 +0\.0 +0 +0 +0 /m, 0])
      text, = seriatim("stats", "--json", "Shell")
      expect(JSON.parse(text)["queues"].first).to include("name" => "Shell", "length" => 1, "morgue_length" => 0)
      expect(seriatim("explain", "Shell", "1")).to match([/\S/, 0])
      explained = JSON.parse(seriatim("explain", "Shell", "1", "--json").first)["job"]
      expect(explained).to include("id" => "1", "payloads_count" => 2).and(satisfy { |job| !job.key?("payloads") })
      expect(seriatim("pause", "Shell")).to eq(["paused 5 shards\n", 0])
      expect(seriatim("stats")).to match([/^queue +length +fresh +retries +lag +busy +paused +parked .*^Shell +1 +1 +0 +0\.0 +0 +5 +0 /m, 0])
      expect(seriatim("resume", "Shell")).to eq(["resumed 5 shards\n", 0])
      expect(seriatim("pause", "Shell", "2")).to eq(["the id \"2\" was not found\n", 1])
      expect(seriatim("resume", "Shell", "1")).to eq(["the id \"1\" is not parked\n", 1])
      expect(seriatim("push", "Wide", "1", "--create", "--shards", "7")).to match([/added 1/, 0])
      expect(worker("Wide").queue.shards_count).to eq(7)
      worker("Wide").actions.delete(["1"])
      expect(seriatim("pause", "Shell", "1")).to eq(["parked 1\n", 0])
      expect(seriatim("resume", "Shell", "1")).to eq(["unparked 1\n", 0])
      expect(seriatim("check")).to match([/Shell: \d+ records, 0 findings/, 0])
    end

    it "take words that the locale does not have, and such as are no UTF-8" do
      c = { env: { "LC_ALL" => "C" } }
      expect(Command.run("push", "Orders", "Zürich", '"ü"', "--create", **c)).to eq(["added 1, folded 0, refused 0\n", 0])
      expect(worker("Orders").queries.fetch(["Zürich"]).first).to include(id: "Zürich", payloads: [["ü", be_a(Float)]])
      app = write("ort.rb", "module Ort; extend Seriatim::Worker; self.queue_name = 'Örter'; self.shards_count = 7; end")
      expect(Command.run("push", "Örter", "1", "-r", app, **c).last).to eq(0)
      expect(worker("Örter").queue.shards_count).to eq(7)
      expect(Command.run("stats", "--bögus", **c)).to eq(["seriatim: invalid option: --bögus\n          see seriatim help\n", 2])
      name = "Q\xff%{}"
      [{}, c].each do |options|
        expect(Command.run("push", name, "id\xfe", "1", "--create", **options).last).to eq(0)
        expect(Command.run("stats", name, **options)).to match([/^Q\?%{} +\d /, 0])
        expect(Command.run("pause", name, "id\xfe", **options)).to eq(["parked 1\n", 0])
        expect(Command.run("reshard", name, "\xff", **options)).to match([/shards must be a whole number from 1 to 4096, not "\?"$/, 2])
        expect(Command.run("b\xffgus", **options)).to match([/unknown command b\?gus; there are/, 2])
        expect(Command.run("-x\xff", **options)).to match([/invalid option: -x\?$/, 2])
      end
      expect(worker(name).queries.parked.map { |record| record[:id].b }).to eq(["id\xfe".b])
    end

    it "take words that are negative numbers" do
      expect(seriatim("push", "-5", "-7", "-1.5", "--create", "--score", "-2", "--", "-v")).to match([/usage: seriatim push/, 2])
      expect(seriatim("push", "-5", "-7", "-1.5", "--create", "--score", "-2")).to eq(["added 1, folded 0, refused 0\n", 0])
      expect(worker("-5").queries.fetch(["-7"])).to match([include(payloads: [[-1.5, -2.0]])])
      expect(seriatim("delete", "-5", "-.5", "-1e5", "-7")).to eq(["deleted 1; 2 of 3 ids were not found\n", 1])
      expect(seriatim("delete", "-5", "-7x")).to match([/invalid option: -7x$/, 2])
    end

    it "say so where Redis forbids to list the queues" do
      worker("Shell").perform_async([{ id: 1 }])
      as_limited_user("-scan") do |url|
        expect(Command.run("stats", redis: url)).to match([/cannot list the queues \(name them where the verb takes names\): .*NOPERM/, 3])
        expect(Command.run("stats", "Shell", redis: url)).to match([/^Shell +1/, 0])
      end
    end

    it "run dead list, retry and delete" do
      recorder = worker("Morgue", max_retry_count: 0) { raise "boom" }
      recorder.perform_async(%w[a b c].map { |id| { id: id } })
      server = serve(recorder)
      eventually { recorder.metrics[:morgue_length] == 3 }
      server.stop
      expect(seriatim("dead", "list", "Morgue")).to match([/^id +died.*^[abc] .*boom.*^[abc] /m, 0])
      expect(JSON.parse(seriatim("dead", "list", "Morgue", "c", "--json").first)).to match([include("id" => "c", "error" => "boom")])
      shown = ->(*words) { JSON.parse(seriatim("dead", "list", "Morgue", "--json", *words).first).map { |row| row["id"] } }
      expect([shown.call("c", "b", "a"), shown.call("c", "b", "--limit", "1"), shown.call("c", "b", "--error", "boom", "--limit", "1")]).to eq([%w[c b a], %w[c], %w[c]])
      expect(shown.call("--error", "boom", "--limit", "2")).to eq(shown.call("--limit", "2")).and(have_attributes(size: 2))
      [[], %w[--error boom], %w[a], %w[a --error boom]].product(%w[0 -1 100001]).each do |words, limit|
        expect(seriatim("dead", "list", "Morgue", *words, "--limit", limit)).to match([/limit must be an Integer from 1 to 100000, not #{limit} /, 2])
      end
      expect(seriatim("dead", "retry", "Morgue", "a", "x")).to eq(["queued up 1; 1 of 2 ids is not dead\n", 1])
      expect(seriatim("dead", "delete", "Morgue")).to match([/name the ids, or --all/, 2])
      expect(seriatim("dead", "delete", "Morgue", "--all")).to eq(["deleted 2\n", 0])
    end

    it "push in the codec of a worker that the application names and has not loaded, and make its queue" do
      write("named_worker.rb", "module NamedWorker; extend Seriatim::Worker; self.codec = :marshal; self.shards_count = 3; end")
      path = write("names.rb", "require 'seriatim'; autoload :NamedWorker, '#{@dir}/named_worker'; Seriatim.workers = %w[NamedWorker]")
      expect(seriatim("push", "NamedWorker", "a", "[1]", "-r", path)).to match([/added 1/, 0])
      named = worker("NamedWorker", codec: :marshal, shards_count: 3)
      expect([named.queue.shards_count, named.queries.fetch(["a"]).first[:payloads].map(&:first)]).to eq([3, [[1]]])
      path = write("unknown.rb", "require 'seriatim'; Seriatim.workers = %w[NoWorker]")
      expect(seriatim("stats", "-r", path)).to match([/\Aseriatim: workers: there is no NoWorker$/, 2])
    end

    it "show payloads that are as deep as a push allows" do
      deep = worker("Deep", max_retry_count: 0)
      payload = (1...128).reduce([]) { |value, _| [value] }
      shown = "#{"[" * 128}#{"]" * 128}"
      deep.perform_async([{ id: "dies", payload: payload }])
      Seriatim.pop(deep).fail("boom")
      deep.perform_async([{ id: "a", payload: payload }, { id: "later", payload: payload, deliver_in: 1000 }])
      expect(seriatim("pop", "Deep")).to match([/: 1 payload\n#{Regexp.escape(shown)}\n\z/, 0])
      expect(seriatim("pop", "Deep", "--json")).to match([/"payloads":\[#{Regexp.escape(shown)}\]/, 0])
      expect(deep.metrics).to include(length: 1, busy: 0, retries: 0)
      expect(seriatim("scheduled", "list", "Deep")).to match([/ #{Regexp.escape(shown[0, 60])}\.\.\.$/, 0])
      expect(seriatim("dead", "list", "Deep", "--json")).to match([/#{Regexp.escape(shown)}/, 0])
    end

    it "pop by the latest worker of a queue that the application has" do
      latest = worker("Twice", codec: :raw)
      latest.perform_async([{ id: 1, payload: "<bytes>" }])
      path = write("twice.rb", <<~RUBY)
        require "seriatim"
        module First; extend Seriatim::Worker; self.queue_name = "Twice"; end
        module Latest; extend Seriatim::Worker; self.queue_name = "Twice"; self.codec = :raw; end
      RUBY
      expect(seriatim("pop", "Twice", "-r", path)).to match([/: 1 payload\n"<bytes>"\n\z/, 0])
      expect(latest.metrics).to include(length: 1, morgue_length: 0)
    end

    it "hand back what they popped and cannot print, whatever the reason" do
      path = write("marshal.rb", "module Marshalled; extend Seriatim::Worker; self.codec = :marshal; end")
      marshalled = worker("Marshalled", codec: :marshal)
      endless = [].tap { |list| list << list }
      { endless => /SystemStackError: /, "\xff".b.to_sym => /\S+Error: / }.each do |payload, why|
        marshalled.perform_async([{ id: "a", payload: payload }])
        expect(seriatim("pop", "Marshalled", "-r", path, "--ack", "--json")).to match([/\Aseriatim: what was popped cannot be printed \(#{why}.*\); it was handed back\n\z/, 1])
        expect(marshalled.metrics).to include(length: 1, busy: 0, retries: 0)
        expect(marshalled.queries.fetch(["a"]).first).to include(retry_count: -1)
        marshalled.actions.delete(["a"])
      end
    end

    it "R-COMMAND-6: list, reschedule and cancel scheduled payloads, by their handles" do
      plans = worker("Plans")
      first, second = plans.perform_async([{ id: "a", payload: { n: 1 }, deliver_in: 1000 }, { id: "b", deliver_in: 2000 }]).handles
      expect(seriatim("scheduled", "list", "Plans")).to match([/^deliver_at .*^\S+Z +\S+Z +a +#{first} +{"n":1}\n\S+Z +\S+Z +b +#{second} +""\n\z/m, 0])
      expect(seriatim("scheduled", "reschedule", "Plans", first, "+3000")).to eq(["rescheduled 1\n", 0])
      expect(JSON.parse(seriatim("scheduled", "list", "Plans", "--json").first).map { |row| row["handle"] }).to eq([second, first])
      expect(seriatim("scheduled", "cancel", "Plans", first, second)).to eq(["cancelled 2\n", 0])
      expect(plans.metrics[:scheduled]).to eq(0)
      expect(seriatim("scheduled", "cancel", "Plans", first)).to eq(["the handle #{first.inspect} names no payload that can be cancelled\n", 1])
    end

    it "R-RESHARD-5: reshard says how far the servers are, and that there is none; killed and run again, it sees the end" do
      moved = worker("Moved", shards_count: 2) { nil }
      moved.perform_async((1..60).map { |id| { id: id, delay: 3600 } })
      expect(seriatim("reshard", "Moved", "2")).to eq(["the queue \"Moved\" has 2 shards\n", 0])
      commands = [%w[Moved 5], %w[Moved 5]].map do |words|
        Command.new("reshard", *words, wait: false).tap { |command| command.wait_for(/0 ids moved, about \d+ left; ids leave 2 of 2 shards; no living server owns one of them/) }
      end
      @commands = commands
      expect(commands.map { |command| command.log.lines.first }).to eq(["the queue \"Moved\" is given 5 shards\n", "the ids of the queue \"Moved\" are on their way to 5 shards already\n"])
      commands.first.signal(:KILL)
      expect(commands.first.wait).to be_nil
      expect(seriatim("reshard", "Moved", "3")).to match([/shards must be 5, not 3/, 2])
      server = serve(moved)
      expect(commands.last.wait(seconds: 120)).to eq(0)
      expect(commands.last.log).to end_with("the queue \"Moved\" has 5 shards\n")
      expect(seriatim("reshard", "Moved", "5")).to eq(["the queue \"Moved\" has 5 shards\n", 0])
      expect(moved.metrics).to include(length: 60, resharding: nil)
      server.stop
    end

    it "R-RESHARD-5: reshard says at INT that the servers go on with the ids, and exits with 0" do
      moved = worker("Moved", shards_count: 2)
      moved.perform_async([{ id: 1 }])
      @commands = [Command.new("reshard", "Moved", "5", wait: false)]
      @commands.first.wait_for(/no living server owns one of them/)
      expect(@commands.first.stop("INT")).to eq(0)
      expect(@commands.first.log).to end_with("\nthe servers go on with the ids of the queue \"Moved\"\n")
      expect(moved.metrics[:resharding]).to include(to: 5)
    end

    it "R-RESHARD-5: reshard that INT ends before anything was begun does not say that the servers go on" do
      worker("Moved", shards_count: 2).perform_async([{ id: 1 }])
      path = write("interrupted.rb", <<~RUBY)
        require "seriatim"
        Seriatim::Actions.prepend(Module.new { def reshard(_shards) = raise(Interrupt) })
      RUBY
      output, code = seriatim("reshard", "Moved", "5", "-r", path)
      expect([output.include?("the servers go on"), code]).to eq([false, nil])
    end

    # The first line is drawn at once; how many follow is a matter of time.
    def progress(what, total) = /\A\r#{what}: \d+ of #{total} \w+ \(\d+%\).*\r +\r\z/m

    it "says on a terminal how far check, dead retry --all and dead delete --all are" do
      long = worker("Long", shards_count: 1)
      long.perform_async((1..200).map { |id| { id: id, retry_count: 1 } })
      expect(Command.run_on_terminal("check", "Long")).to match([progress("check Long", 200), /\ALong: \d+ records, 0 findings\n\z/, 0])
      expect(long.actions.kill_all_failed_jobs).to eq(200)
      expect(Command.run_on_terminal("dead", "retry", "Long", "--all")).to match([progress("dead retry Long", 200), "queued up 200\n", 0])
      long.perform_async((201..400).map { |id| { id: id, retry_count: 1 } })
      expect(long.actions.kill_all_failed_jobs).to eq(200)
      expect(Command.run_on_terminal("check", "--json")).to match(["", /"findings":\[\]/, 0])
      expect(Command.run_on_terminal("dead", "delete", "Long", "--all")).to match([progress("dead delete Long", 200), "deleted 200\n", 0])
      expect(Command.run_on_terminal("check")).to match([/\A\rcheck: \d+ keys.*\r +\r\z/m, /\ALong: /, 0])
    end
  end

  describe "with closed standard files" do
    it "hands back what it popped" do
      popped = worker("Popped")
      popped.perform_async([{ id: "a" }])
      %w[--json --ack].each do |option|
        expect(Command.run("pop", "Popped", option, closed: ">&-")).to eq(["seriatim: what was popped cannot be printed; it was handed back\n", 1])
      end
      expect(popped.metrics).to include(length: 1, busy: 0, retries: 0)
    end

    it "ends another verb with 1, and without a backtrace" do
      [%w[push Shell 1 --create], %w[stats], %w[version]].product([">&-", "<&- >&-", ">&- 2>&-"]).each do |words, closed|
        expect(Command.run(*words, closed: closed)).to eq(["", 1])
      end
    end

    it "keeps the exit code of a complaint that nobody hears" do
      expect(Command.run("bogus", closed: "2>&-")).to eq(["", 2])
      expect(Command.run("-r", app, redis: "redis://127.0.0.1:1", closed: ">&- 2>&-")).to eq(["", 3])
    end

    %w[1 2].each do |processes|
      it "stops a server with 0, -p #{processes}" do
        server = start("-p", processes, closed: "<&- >&- 2>&-", wait: false)
        queue.perform_async([{ id: "a" }])
        eventually { trace.include?("a end") }
        expect([server.stop, server.log]).to eq([0, ""])
      end
    end
  end

  describe "a private Redis" do
    def private_env = { "SERIATIM_DATA" => File.join(@dir, "data") }

    it "R-PRIVATE-1: is started where no other Redis is named, and says so" do
      output, code = Command.run("push", "Q", "1", "--create", redis: nil, env: private_env)
      expect([output, code]).to match([%r{started the private Redis in #{@dir}/data.*added 1}m, 0])
      expect(Command.run("push", "Q", "1", redis: nil, env: private_env)).to match([/folded 1/, 0])
    end

    it "lies in tmp/seriatim of the Rails application in whose folder a command runs that does not load it" do
      write("config/environment.rb", "raise 'loaded'")
      output, code = Command.run("push", "Q", "1", "--create", redis: nil, env: { "XDG_DATA_HOME" => "#{@dir}/home" }, dir: @dir)
      expect([output, code]).to match([%r{started the private Redis in #{File.realpath(@dir)}/tmp/seriatim;}, 0])
    end

    it "is announced on standard error, also where the log goes to standard output" do
      output, error, = Open3.capture3({ **Command::NEUTRAL, "REDIS_URL" => nil, **private_env }, *Command::RUBY, Command::EXE, "-r", app, "-p", "0")
      expect([output, error]).to match(["", /INFO .*started the private Redis in/])
    end

    it "R-COMMAND-5: is refused in production, with exit code 3" do
      refused = "no Redis: set REDIS_URL or Seriatim.redis (in production Seriatim starts no private one)"
      expect(Command.run("push", "Q", "1", "-e", "production", redis: nil, env: private_env)).to eq(["seriatim: #{refused}\n", 3])
      expect(Command.run("-r", app, redis: nil, env: { "RACK_ENV" => "production", **private_env })).to match([/seriatim: #{Regexp.escape(refused)}$/, 3])
    end

    it "R-PRIVATE-2: is shared by server and shell, and ends with the last of them" do
      server = start(redis: nil, env: private_env)
      expect(Command.run("push", "CliWorker", "1", redis: nil, env: private_env).last).to eq(0)
      eventually { trace.include?("1 end") }
      expect(server.stop).to eq(0)
      eventually { !Dir.glob("/proc/[0-9]*/cmdline").any? { |file| File.read(file).include?("#{@dir}/data") rescue false } }
    end
  end

  describe "before the server has started" do
    # The command while it loads an application that takes `seconds`.
    def loading(seconds, *arguments)
      path = File.join(Dir.mktmpdir, "slow.rb")
      File.write(path, <<~RUBY)
        module SlowWorker
          extend Seriatim::Worker
          def self.perform(payloads_by_id) = payloads_by_id
        end
        File.write(#{"#{path}.loading".inspect}, "")
        sleep #{seconds}
      RUBY
      @loading = Command.new("-r", path, *arguments, wait: false)
      eventually { File.exist?("#{path}.loading") }
      @loading
    end

    after { @loading&.remove }

    [[], %w[-p 2]].each do |arguments|
      %w[TERM INT].each do |name|
        it "F20 #{name} ends with 0 while the application is loaded #{arguments.join(" ")}" do
          command = loading(60, *arguments)
          expect(command.stop(name)).to eq(0)
        end
      end

      it "F20 other signals take effect once the server has started #{arguments.join(" ")}" do
        command = loading(1, *arguments)
        %w[TTIN TSTP HUP USR1].each { |name| command.signal(name) }
        [/ quiet /, / thread .*server_command/, /HUP is ignored/, /USR1 is ignored/].each { |said| command.wait_for(said) }
        expect(command.stop).to eq(0)
      end
    end

    it "R-SIGNAL-4: TSTP while the application is loaded lets the server claim nothing" do
      slow = worker("SlowWorker")
      slow.perform_async([{ id: 1 }])
      command = loading(1)
      command.signal("TSTP")
      command.wait_for(/ quiet /)
      sleep 0.7
      expect(slow.metrics).to include(processed: 0, length: 1, busy: 0)
      expect(command.stop).to eq(0)
    end

    # The command while it loads its own files, until the yielded block has returned: its "optparse" is one that waits.
    def starting(*arguments)
      write("lib/optparse.rb", <<~RUBY)
        File.write(#{"#{@dir}/starting".inspect}, "")
        sleep 0.01 until File.exist?(#{"#{@dir}/go".inspect})
        load File.join(RbConfig::CONFIG["rubylibdir"], "optparse.rb")
      RUBY
      env = { "RUBYLIB" => "#{@dir}/lib", "TRACE" => trace_path }
      command = Command.new(*arguments, env: env, wait: false)
      (@commands ||= []) << command
      eventually { File.exist?("#{@dir}/starting") }
      yield command
      write("go", "")
      command
    end

    %w[TERM INT].each do |name|
      it "F20, R-SIGNAL-7: #{name} while the command loads its own files ends it with 0 before the application is loaded" do
        application = write("marks.rb", "File.write(#{"#{@dir}/loaded".inspect}, '')")
        expect(starting("-r", application) { |command| command.signal(name) }.wait).to eq(0)
        expect(File.exist?("#{@dir}/loaded")).to be(false)
      end
    end

    it "F20, R-SIGNAL-7: TERM while the command loads its own files ends another verb than server by the signal" do
      expect(starting("stats") { |command| command.signal("TERM") }.wait).to be_nil
    end

    it "F20 TERM twice within a second counts once" do
      codes = Array.new(5).lazy.map do
        command = loading(0)
        command.wait_for(/start node/)
        command.signal_taken("TERM")
        command.stop("TERM")
      end
      expect(codes.include?(0)).to be(true) # on a busy machine the process may hear the second one more than a second after the first
    end
  end
end
