# frozen_string_literal: true

require_relative "kill_points"

# Kills workers at the points where payloads that are done by themselves are lost or doubled: round a checkpoint, round a snooze, and
# round a claim that moves scheduled payloads into their ids. Every payload is scheduled, a moment ahead; those of an id in the
# order of their numbers.
class TaskPoints < KillPoints
  SCRIPTS = { "checkpoint" => "settle", "snooze" => "settle", "move" => "claim" }.freeze
  ON_THE_WIRE = SCRIPTS.keys.product(%w[before sent answered]).to_h { |what, moment| ["#{what}_#{moment}", [what, moment.to_sym]] }.freeze
  POINTS = [*ON_THE_WIRE.keys, "perform_during"].freeze
  AHEAD = 0.1 # seconds until the payloads of a push come
  MANY = 25 # payloads of an id where a move is to take several calls of the claim: one moves 100 of a shard

  # How many died in the midst of a move: some of what had come due was moved, some not.
  attr_reader :amid

  def initialize(...)
    super
    @amid = 0
  end

  def points = POINTS

  private

  def step_of(point)
    what, moment = ON_THE_WIRE[point]
    what && Proxy::Step.new(script: SCRIPTS.fetch(what), moment: moment, only: what == "move" ? method(:moves?) : names(what))
  end

  # Settles with such an entry.
  def names(kind) = ->(request) { request.include?("\r\n#{kind}\r\n") }

  # Claims that find scheduled payloads whose time has come.
  def moves?(request)
    shard = request[/(seriatim:{#{@queue}\/\d+}:)state\r\n/n, 1]
    overdue("#{shard}scheduled").positive?
  end

  def overdue(key)
    now = @kit.redis.call("TIME").map(&:to_i)
    Integer(@kit.redis.call("ZCOUNT", key, "-inf", ((now[0] * 1_000_000) + now[1]).to_s))
  end

  def kill(proxy, lane, point, language, nth)
    super
    @amid += 1 if point.start_with?("move") && overdue("seriatim:{#{@queue}/#{lane.number}}:scheduled").between?(1, (IDS * MANY) - 1)
  end

  # Redis counts from its own time: so no payload comes at once, and none before those of an earlier push.
  def push(lane, point)
    numbers = Array.new(point.start_with?("move") ? MANY : 4) { lane.pushed += 1 }
    jobs = lane.ids.flat_map { |id| numbers.map { |number| { id: id, payload: payload(number, numbers), deliver_in: AHEAD } } }
    @kit[@queue].perform_async(jobs)
    @kit.journal.pushed_to(@queue, lane.ids, numbers)
  end

  # The second of them is snoozed once. Of most payloads the checkpoint is waited for.
  def payload(number, numbers)
    snooze = number == numbers[1] ? { snooze: 0.01 } : {}
    { n: number, sleep: 0.001, task: (number % 3).zero? ? "sent" : "flush", **snooze }
  end
end
