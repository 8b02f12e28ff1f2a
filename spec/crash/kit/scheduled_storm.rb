# frozen_string_literal: true

require_relative "checker"
require_relative "kit"

# Payloads for later under operators and kills: pushed a few at a time, cancelled, rescheduled, parked, unparked and deleted at random,
# while the servers are killed one after the other. It notes what each call answered; `judgement` compares that with the journal.
class ScheduledStorm
  # One payload. number counts those of its id; at is its deliver_at, the last one that Redis took; deleted: when the last deletion
  # of its id ended that may have met it.
  Payload = Struct.new(:id, :number, :at, :handle, :pushed, :cancelled, :deleted, keyword_init: true) do
    def key = [id, number]
  end
  SLICE = 100
  AHEAD = (1.0..5.0) # deliver_in
  ACTIONS = { cancel: 6, reschedule: 10, park: 3, unpark: 3, delete: 1 }.flat_map { |name, weight| [name] * weight }.freeze

  attr_reader :payloads, :done, :killed

  # @param kill [#call] ends a server and starts another
  def initialize(kit, queue, ids:, count:, kill:)
    @kit = kit
    @worker = kit[queue]
    @ids = ids
    @count = count
    @kill = kill
    @random = Random.new(kit.seed)
    @payloads = []
    @numbers = Hash.new(0)
    @done = Hash.new(0)
    @killed = 0
    @parked = {}
  end

  # Pushes, acts and kills in any order, over some seconds.
  def run(actions:, kills:, seconds:)
    turns = ([:push] * (@count / SLICE)) + ([:act] * actions) + ([:kill] * kills)
    turns.shuffle(random: @random).each do |turn|
      send(turn)
      sleep seconds.fdiv(turns.size)
    end
    @worker.actions.unpark_all
    park_what_waits
  end

  def ever_parked?(id) = @parked[id]

  private

  def push
    jobs = Array.new([SLICE, @count - @payloads.size].min) { job }
    @payloads.concat(jobs)
    result = @worker.perform_async(jobs.map { |p| { id: p.id, payload: { n: p.number, sleep: @random.rand(0.01).round(4) }, deliver_at: p.at } })
    jobs.zip(result.handles) { |payload, handle| payload.handle = handle }
    jobs.each { |payload| payload.pushed = Journal.now }
  end

  def job
    id = @ids.sample(random: @random)
    Payload.new(id: id, number: @numbers[id] += 1, at: Time.now.to_f + @random.rand(AHEAD))
  end

  def act
    name = ACTIONS.sample(random: @random)
    @done[name] += 1 if @payloads.any? && send(name)
  end

  def kill
    @kill.call
    @killed += 1
  end

  def cancel
    payload = @payloads.sample(random: @random)
    before = Journal.now
    @worker.actions.cancel(payload.handle).tap { |cancelled| payload.cancelled ||= before if cancelled }
  end

  def reschedule
    payload = @payloads.sample(random: @random)
    at = Time.now.to_f + @random.rand(0.5..2.0)
    @worker.actions.reschedule(payload.handle, at).tap { |taken| payload.at = at if taken }
  end

  # An id of which a payload comes due about now: of one that has only scheduled payloads nothing is parked.
  def park
    now = Time.now.to_f
    id = @payloads.min_by { |payload| (payload.at - now).abs }.id
    @worker.actions.park([id]).positive?.tap { |parked| @parked[id] = true if parked }
  end

  # What `park` meets is often done before `unpark` comes to it. This id waits, and runs when it is unparked.
  def park_what_waits
    id = "waits"
    @payloads << Payload.new(id: id, number: 1, at: Time.now.to_f, pushed: Journal.now)
    @worker.perform_async([{ id: id, payload: { n: 1 }, delay: 3600 }])
    @parked[id] = true
    @done[:park] += @worker.actions.park([id])
    @done[:unpark] += @worker.actions.unpark([id])
  end

  def unpark = @worker.actions.unpark(@parked.keys.sample(5, random: @random)).positive?

  # It also takes what was scheduled before it, and what waits; not what runs.
  def delete
    id = @ids.sample(random: @random)
    deleted = @worker.actions.delete([id]).positive?
    @payloads.each { |payload| payload.deleted = Journal.now if payload.id == id }
    deleted
  end
end

# Judges what a ScheduledStorm did by the journal of the servers.
class ScheduledVerdict
  TOLERANCE = 0.002 # seconds: the journal of Lua has milliseconds, Redis' times have microseconds

  # Each a list of texts that must be empty.
  attr_reader :early, :disordered, :lost, :revived, :repeated, :invented

  def initialize(payloads, lines)
    @payloads = payloads.to_h { |payload| [payload.key, payload] }
    @early, @disordered, @lost, @revived, @repeated, @invented = Array.new(6) { [] }
    @first = {} # key => when its first run began
    @ran_by = {} # key => process of its last run
    @ended = {} # key => true
    @last_at = Hash.new(0) # id => the latest deliver_at that has ended
    @killed = {} # processes, as far as the journal is read
    @lapsed = {} # processes that had no time for their heartbeat => when it ended first; who takes their shards may begin before this line
    lines.each { |line| @lapsed[line.pid] = [line.time, *@lapsed[line.pid]].min if line.kind == "lapsed" }
    @open = {} # [id, fence] => keys
    lines.each { |line| read(line) }
    @payloads.each_value { |payload| @lost << payload.key.join(" ") unless @ended[payload.key] || payload.cancelled || payload.deleted }
  end

  def faults
    { early: early, disordered: disordered, lost: lost, revived: revived, repeated: repeated, invented: invented }
      .reject { |_, list| list.empty? }.transform_values { |list| [list.size, *list.first(5)] }
  end

  # Seconds between deliver_at and the first run, in order, of those that the block takes.
  def lateness
    @first.filter_map { |key, time| time + Checker::TO_REDIS - @payloads[key].at if yield @payloads[key] }.sort
  end

  private

  def read(line)
    case line.kind
    when "start" then start(line)
    when "end" then finish(line)
    when "killed" then @killed[line.pid] = true
    end
  end

  def start(line)
    found = line.numbers.map { |number| @payloads[[line.id, number]] }
    return invented << "#{line.id} #{line.numbers}" unless found.all?

    new = found.reject { |payload| @ended[payload.key] && gone?(payload, line.time) }
    found.each { |payload| judge(payload, line) }
    ats = found.map(&:at)
    in_order = ats.each_cons(2).all? { |a, b| a <= b + 1e-6 } && (new.empty? || new.first.at >= @last_at[line.id] - 1e-6)
    disordered << "#{line.id} #{line.numbers} at #{ats}, after #{@last_at[line.id]}" unless in_order
    @open[[line.id, line.fence]] = found
  end

  # May Redis not have heard of the last run of this payload? Then it comes again, before what is new.
  def gone?(payload, time)
    pid = @ran_by[payload.key]
    @killed.key?(pid) || @lapsed.fetch(pid, Float::INFINITY) <= time + 0.2
  end

  def judge(payload, line)
    name = "#{payload.key.join(" ")} pid #{line.pid}"
    early << "#{name} by #{payload.at - line.time - Checker::TO_REDIS}" if line.time + Checker::TO_REDIS < payload.at - TOLERANCE
    revived << name if payload.cancelled && line.time > payload.cancelled
    repeated << name if @ran_by[payload.key] && !gone?(payload, line.time)
    @first[payload.key] ||= line.time
    @ran_by[payload.key] = line.pid
  end

  def finish(line)
    @open.delete([line.id, line.fence]).to_a.each do |payload|
      @ended[payload.key] = true
      @last_at[line.id] = [@last_at[line.id], payload.at].max
    end
  end
end
