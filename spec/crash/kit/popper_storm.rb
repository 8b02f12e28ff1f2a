# frozen_string_literal: true

require_relative "kit"

# Poppers of every kind beside servers of every language on one queue: some are killed and others take their places, some are
# frozen until what they ran is over, and the web applications that some poppers use are killed and started again.
class PopperStorm
  Member = Struct.new(:kind, :process, :frozen) # kind: of a popper, as Kit::POPPERS has it; or :server
  Web = Struct.new(:host, :port, :process)
  PATIENCE = 100 # seconds

  # killed, restarted: how many; frozen: kind and process id of each popper that was frozen in a run.
  attr_reader :killed, :restarted, :frozen

  # @param ttr [Float] of the poppers
  # @param kinds [Array<String>] of poppers
  # @param servers [Array<String>] languages
  # @param lease [Float] of the servers
  def initialize(kit, queue, ttr:, kinds: Kit::POPPERS, servers: Kit::LANGUAGES, lease: 0.5)
    @kit = kit
    @queue = queue
    @ttr = ttr
    @lease = lease
    @lock = Mutex.new
    @web_lock = Mutex.new
    @killed = @restarted = 0
    @frozen = []
    @turns = Hash.new(0) # by list
    @kinds = kinds - ["http"]
    @servers = servers
    @webs = kinds.include?("http") ? Kit::WEB_HOSTS.map { |host| start(Web.new(host, RedisServer.free_port)) } : []
    @members = kinds.map { |kind| Member.new(kind) } + servers.map { Member.new(:server) }
    @members.each { |member| member.process = make(member.kind) }
  end

  # Kills them all.
  def close
    (@members + @webs).each { |one| one.process.kill }
  end

  # Kills one at random, but for those that are frozen, and starts another like it.
  def kill_one
    @lock.synchronize do
      member = @members.reject(&:frozen).sample(random: @kit.random)
      member.process.kill
      member.process = make(member.kind)
      @killed += 1
    end
  end

  # Kills a popper in the midst of a run, and starts no other. Some must have long runs.
  def kill_in_a_run
    @kit.eventually(PATIENCE, -> { "no popper is in a run" }) do
      process = @members.map(&:process).select(&:alive?).sample(random: @kit.random)
      process.freeze_if { last_of(process) == "start" } && process.kill.then { @killed += 1 }
    end
  end

  # Kills one of the web applications and starts it again.
  def restart_web
    @web_lock.synchronize do
      web = @webs.rotate(@restarted).first
      web.process.kill
      start(web)
      @restarted += 1
    end
  end

  # Freezes an HTTP consumer and two other poppers while each runs an id, and a server, until what they run is over and the server's
  # shards are others'; then lets them go on, and waits until the poppers have reported.
  def freeze_some
    poppers = ["http", next_of(@kinds), next_of(@kinds)].map { |kind| freeze_one(kind) { |process| last_of(process) == "start" } }
    server = freeze_one(:server) { true }
    IO.select(nil, nil, nil, [@ttr, @lease * 3].max + 0.1)
    @kit.eventually(PATIENCE, -> { "a frozen server still owns shards" }) { !@kit.owners(@queue).include?(server.process.pid) }
    # An application that is killed while it refuses a report leaves its consumer without an answer.
    @web_lock.synchronize do
      [*poppers, server].each { |member| member.process.thaw }
      @kit.eventually(PATIENCE, -> { "a frozen popper does not report" }) { poppers.all? { |member| %w[reported refused].include?(last_of(member.process)) } }
    end
    @frozen.concat(poppers.map { |member| [member.kind, member.process.pid] })
    [*poppers, server].each { |member| member.frozen = false }
  end

  private

  def next_of(list) = list[(@turns[list.object_id] += 1) % list.size]

  def make(kind)
    return @kit.worker(next_of(@servers), lease: @lease, threads: 3, poll: 0.2) if kind == :server

    url = kind == "http" ? "http://127.0.0.1:#{next_of(@webs).port}" : @kit.redis.url
    @kit.popper(kind, @queue, ttr: @ttr, url: url)
  end

  # @return [Web]
  def start(web)
    web.process = @kit.web(web.host, web.port)
    web
  end

  # Tries each of this kind until one is stopped where the block wants it.
  # @return [Member]
  def freeze_one(kind)
    @kit.eventually(PATIENCE, -> { "no #{kind} to be frozen" }) do
      @lock.synchronize do
        member = @members.reject(&:frozen).select { |one| one.kind == kind }.sample(random: @kit.random)
        member if member.process.alive? && (member.frozen = member.process.freeze_if { yield(member.process) })
      end
    end
  end

  # @return [String, nil] the kind of the last line about a run that the process wrote, if that was not long ago
  def last_of(process) = @kit.journal.tail.reverse_each.find { |line| line.pid == process.pid && line.queue }&.kind
end
