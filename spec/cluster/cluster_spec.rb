# frozen_string_literal: true

require "net/http"
require "zlib"
require_relative "../crash/kit/popper_storm"
require_relative "cluster_load"

# Servers and producers of all languages on a Redis Cluster, while slots move, and masters leave and come.
RSpec.describe "Redis Cluster" do
  include ClusterLoad

  SECONDS = Figures.count(6, 180)
  PAUSE = Figures.count(0.03, 0.4) # seconds between two pushes of a producer
  BY_SLOT = /{(.*?)}/n

  before { |example| with_redis(redis: ClusterSetup) unless example.metadata[:own] }

  # What all processes have written to their logs.
  def logs = kit.processes.map(&:log).join

  # Waits first until nginx pushes nothing more.
  def nothing_is_lost
    @workers.grep(NginxProcess).each(&:wait_for_producer)
    super
  end

  # Beside those of all other languages, nginx serves Storm and pushes to it.
  def start_workers(url, lease)
    super << kit.nginx("Storm", ids: ids_of("nginx"), until_file: File.join(kit.folder, "enough"), pause: PAUSE, url:, lease_time: lease, poll_interval: 0.5)
  end

  # ---- where keys lie

  it "R-CLUSTER-1 lays the shards of a queue on all masters, and all keys of a shard on one" do
    kit.queue("Spread", shards_count: 24)
    kit.push("Spread", (1..500).map { |number| "id#{number}" }, [1, 2])
    by_master = cluster.masters.to_h { |node| [node, node.call("KEYS", "*{Spread/*").group_by { |key| key[BY_SLOT, 1] }] }
    expect(by_master.values.map(&:size)).to all(be > 0)
    expect(by_master.values.flat_map(&:keys)).to match_array((0...24).map { |shard| "Spread/#{shard}" })
    by_master.each do |node, shards|
      shards.each { |tag, keys| expect(node.call("CLUSTER", "COUNTKEYSINSLOT", cluster.slot_of("{#{tag}}"))).to eq(keys.size.to_s) }
    end
  end

  it "R-CLUSTER-2 is found by the one seed that answers" do
    kit.queue("Storm", **AllLanguages::STORM)
    dead = Array.new(2) { "127.0.0.1:#{RedisServer.free_port}" }
    url = "redis+cluster://#{[*dead, cluster.nodes.last.address].join(",")}"
    with_agents(Hash.new(url), Storm: AllLanguages::STORM) do |language, agent|
      expect(agent.push("Storm", *ids_of(language).map { |id| { id: id, payload: 1 } })["added"]).to eq(10)
      expect(agent.check("Storm")).to eq([])
    end
    kit.queue("Seeds", shards_count: 8)
    run_by(kit.nginx("Seeds", url:), "Seeds") { |nginx| expect(push_by(nginx, "Seeds", 1..10)).to eq("10") }
  end

  # Stops the server when the queue is empty.
  def run_by(server, queue)
    server.wait_until_started
    yield server
    kit.eventually { kit[queue].metrics.values_at(:length, :busy).sum.zero? }
    expect(server.stop).to eq(0), server.log
  end

  def ask(nginx, path_and_query) = Net::HTTP.get(URI("http://127.0.0.1:#{nginx.port}/#{path_and_query}")).strip

  # Pushes to ids with these numbers in one request to nginx. @return [String] how many were added, or the error
  def push_by(nginx, queue, numbers) = ask(nginx, "?queue=#{queue}&from=#{numbers.first}&to=#{numbers.last}")

  # How many connections each master has ever had.
  def connections_made = cluster.masters.map { |node| node.call("INFO", "stats")[/total_connections_received:(\d+)/, 1].to_i }

  it "R-CLUSTER-11 lets pushes in nginx share few connections to many masters" do
    kit.queue("Spread", shards_count: 24)
    nginx = kit.nginx("Spread", serves: false, client_pool_size: 2, pool_timeout: 30)
    kit.eventually { push_by(nginx, "Spread", 1..1) == "1" rescue nil } # rubocop:disable Style/RescueModifier
    before = connections_made
    pushed = Array.new(40) { |turn| Thread.new { push_by(nginx, "Spread", (turn * 100)..((turn * 100) + 99)) } }.map(&:value)
    expect(pushed.sum(&:to_i)).to eq(3999)
    expect(before.zip(connections_made).map { |from, to| to - from }).to all(be <= 10) # two of nginx's, and those that ask
    nginx.stop
  end

  # ---- slots that move

  # Moves the slots of the queue in turn to other masters, and lets one master forget the scripts each time.
  def move_slots(slots, times)
    times.times do |time|
      slot = slots[time % slots.size]
      others = cluster.masters - [cluster.master_of(slot)]
      cluster.move_slot(slot, others[time % others.size])
      others.first.call("SCRIPT", "FLUSH")
      sleep 0.02
    end
  end

  it "F37, R-CLUSTER-3 nothing is lost, reordered or run twice while slots move under load and masters forget the scripts" do
    moved = 0
    under_load(SECONDS, pause: PAUSE) do
      move_slots(slots("Storm", 8), 8)
      moved += 8
    end
    verdict = nothing_is_lost
    expect(verdict.concurrent + verdict.void + verdict.repeated).to eq([])
    expect(kit.refused).to eq(0)
    expect(logs).not_to include("CROSSSLOT")
    Figures.note("F37", "slots moved under load", moved)
  end

  it "F37, R-CLUSTER-3 a push and a server wait for a slot that stays half moved" do
    kit.queue("Storm", **AllLanguages::STORM)
    kit.push("Storm", %w[a b c d e f g h], 1)
    slot = cluster.slot_of("{Storm/#{shard_of("a")}}")
    source = cluster.master_of(slot)
    target = (cluster.masters - [source]).first
    cluster.half_move(slot, target, keys: 2)
    pushing = Thread.new { kit.push("Storm", %w[a], 2) }
    worker = kit.worker("ruby", queue: "Storm", lease: 10)
    kit.eventually { kit.journal.starts.map(&:id).uniq.size >= 8 - in_shard_of("a").size }
    expect(pushing.join(0.5)).to be_nil
    cluster.end_move(slot, source, target)
    pushing.value
    kit.drain
    expect(worker.stop).to eq(0), worker.log
    expect_all_well
  end

  def shard_of(id) = Zlib.crc32(id) % 8
  def in_shard_of(id) = %w[a b c d e f g h].select { |other| shard_of(other) == shard_of(id) }

  it "F37, R-CLUSTER-3 a master is added and takes its share under load" do
    added = nil
    under_load(nil, pause: PAUSE) do
      added = cluster.add_master
      cluster.rebalance(added, first: slots("Storm", 8))
      more_runs(200)
    end
    expect(slots("Storm", 8).map { |slot| cluster.master_of(slot) }).to include(added)
    nothing_is_lost
  end

  # ---- masters that go

  it "F38, R-CLUSTER-4 a failover by command loses nothing and refuses nothing" do
    failovers = 0
    under_load(SECONDS, pause: PAUSE) do
      cluster.failover(cluster.masters[failovers % 3])
      failovers += 1
      cluster.await_whole
      more_runs(30)
    end
    verdict = nothing_is_lost
    expect(verdict.concurrent + verdict.void).to eq([])
    Figures.note("F38", "failovers by command", failovers)
  end

  it "F38, R-CLUSTER-5 a killed master is replaced, and with WAIT 1 no acknowledged push is lost" do
    replace_masters(:kill_master)
  end

  it "F38, R-CLUSTER-5 a frozen master is replaced, and with WAIT 1 no acknowledged push is lost" do
    replace_masters(:freeze_master)
  end

  # A replica that had not heard of a claim gives it again: such runs are shown, not forgiven otherwise.
  def replace_masters(how)
    start_load([*Kit::LANGUAGES, "nginx"])
    Figures.count(1, 9).times do
      send(how)
      more_runs(30)
    end
    verdict = end_load
    Figures.note("F38", "runs of forgotten claims", verdict.late.size)
    expect(verdict.faults).to eq({})
  end

  # ---- poppers

  it "R-CLUSTER-6 lets poppers of all kinds take from it, beside servers" do
    kit.queue("Pulled", shards_count: 12, back_off: 0.02)
    crowd = PopperStorm.new(kit, "Pulled", ttr: 20, lease: 6)
    kit.push("Pulled", (1..200).map { |number| "id#{number}" }, 1)
    kit.drain
    crowd.close
    expect(kit.journal.lines.select { |line| line.kind == "start" }.map(&:pid).uniq.size).to be > 3
    expect(kit.verdict.faults).to eq({})
  end

  # The nodes at which somebody listens to the wake-ups of a shard.
  def listened_to(shard) = cluster.nodes.select { |node| node.call("PUBSUB", "NUMSUB", "seriatim:{#{shard}}:wake").last.to_i.positive? }

  it "R-CLUSTER-6 lets pops that wait in nginx listen at one node, and at another one when that is lost" do
    kit.queue("Pulled", shards_count: 6)
    kit.push("Pulled", %w[before], 1)
    nginx = kit.nginx("Pulled", serves: false)
    kit.eventually { ask(nginx, "pop?queue=Pulled&wait=0") == "before" rescue nil } # rubocop:disable Style/RescueModifier
    waiting = Thread.new { ask(nginx, "pop?queue=Pulled&wait=60") }
    first = kit.eventually { listened_to("Pulled/0").first }
    first.call("CLIENT", "KILL", "TYPE", "pubsub")
    kit.eventually { listened_to("Pulled/0").any? && listened_to("Pulled/0") != [first] }
    expect(waiting.join(0.3)).to be_nil
    kit.push("Pulled", %w[after], 1)
    expect(waiting.value).to eq("after")
    nginx.stop
  end

  # ---- the dashboard

  def get(port, path) = JSON.parse(Net::HTTP.get(URI("http://127.0.0.1:#{port}#{path}")))

  # A dashboard in each kind of host, when it answers.
  def with_dashboards
    Kit::WEB_HOSTS.each do |host|
      port = RedisServer.free_port
      kit.web(host, port)
      kit.eventually { Net::HTTP.get(URI("http://127.0.0.1:#{port}/livez")) rescue nil } # rubocop:disable Style/RescueModifier
      yield port
    end
  end

  it "R-CLUSTER-9 shows all masters with their slots, and the master of each shard, also after a failover" do
    kit.queue("Shown", shards_count: 24)
    kit.push("Shown", (1..100).map { |number| "id#{number}" }, 1)
    cluster.failover(cluster.masters.first)
    cluster.await_whole
    with_dashboards do |port|
      found = get(port, "/api/web/dashboard")
      expect(found["masters"].to_h { |master| master.values_at("address", "slots") }).to eq(cluster.masters.to_h { |node| [node.address, node.slots.size] })
      expect(found["queues"].map { |queue| queue["name"] }).to eq(["Shown"])
      shards = get(port, "/api/v1/queues/Shown")["shards"].map { |shard| shard["master"] }
      expect(shards).to eq(slots("Shown", 24).map { |slot| cluster.master_of(slot).address })
      masters = get(port, "/api/v1/masters")["masters"]
      expect(masters.to_h { |master| master.values_at("address", "shards") }).to eq(cluster.masters.to_h { |node| [node.address, shards.count(node.address)] })
      expect(masters.sum { |master| master["enqueued"] }).to eq(100)
    end
  end

  # ---- rights and TLS

  # A server and pushes of Ruby at this URL, then a server and pushes of nginx.
  def work_at(url, name)
    Seriatim.redis = url
    kit.queue(name, shards_count: 24)
    run_by(kit.worker("ruby", queue: name, url: url, lease: 10), name) { kit.push(name, (1..100).map { |number| "id#{number}" }, 1) }
    run_by(kit.nginx(name, url:), name) { |nginx| expect(push_by(nginx, name, 101..200)).to eq("100") }
    expect(kit[name].actions.check[:findings]).to eq([])
    expect(kit.verdict.faults).to eq({})
  end


  # The commands of docs/guides/deployment.md that make the user.
  def make_user(*more)
    page = File.read(File.expand_path("../../docs/guides/deployment.md", __dir__))
    lines = page.scan(/^ACL SETUSER jobs .*$/)
    cluster.nodes.each { |node| [*lines, *more].each { |line| node.call(*line.split) } }
    cluster.url.sub("://", "://jobs:PASSWORD@")
  end

  it "R-CLUSTER-7 works with the rights that the page names, and names those that a user lacks" do
    work_at(make_user("ACL SETUSER jobs +asking +cluster|slots"), "Rights")
    Seriatim.redis = make_user("ACL SETUSER jobs -cluster") + "/0"
    kit.queue("Refused", shards_count: 3)
    expect { kit["Refused"].perform_async([{ id: 1 }]) }.to raise_error(Seriatim::AuthError, /cluster\|slots/)
  end

  def make_certificates(folder)
    commands = ["req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.crt",
                "req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout server.key -out server.csr",
                "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt"]
    File.write("#{folder}/names", "subjectAltName=IP:127.0.0.1")
    commands.each { |words| system("openssl", *words.split, chdir: folder, err: File::NULL) or raise "openssl #{words}" }
  end

  it "R-CLUSTER-8 works over TLS, also after a failover", own: true do
    Dir.mktmpdir do |folder|
      make_certificates(folder)
      ENV["SSL_CERT_FILE"] = "#{folder}/ca.crt"
      @own_redis = ClusterSetup.new(tls: folder)
      @kit = Kit.new(seed: RSpec.configuration.seed, redis: @own_redis)
      work_at(redis.url, "Secured")
      cluster.failover(cluster.masters.first)
      cluster.await_whole
      work_at(redis.url, "SecuredAgain")
    ensure
      ENV.delete("SSL_CERT_FILE")
    end
  end
end
