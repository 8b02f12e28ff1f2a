# frozen_string_literal: true

require "zlib"
require_relative "kit"
require_relative "proxy"

# Kills workers at named points. A proxy, which knows whose connection it serves, kills at the points around a script call; the worker
# kills itself at those in perform. Every worker has a fixed part of the shards with some ids, and gets new jobs for it; so the next one
# need not wait until the leases of the one that died have ended.
class KillPoints
  ON_THE_WIRE = { "claim_before" => ["claim", :before], "claim_sent" => ["claim", :sent], "claim_answered" => ["claim", :answered],
                  "settle_sent" => ["settle", :sent], "settle_answered" => ["settle", :answered] }.freeze
  IN_PERFORM = %w[perform_begin perform_during perform_end].freeze
  POINTS = (ON_THE_WIRE.keys.first(3) + IN_PERFORM + ON_THE_WIRE.keys.last(2)).freeze
  IDS = 10 # in a lane
  PATIENCE = 120 # seconds until a worker must have come to its point

  # point => how many died there; missed: [point, language, log] of those that never came to it
  attr_reader :died, :missed

  # @param slots [Integer] workers at a time
  # @param start [#call] language, arguments of Kit#worker => the process
  def initialize(kit, queue, lanes:, slots: 4, start: kit.method(:worker))
    @kit = kit
    @queue = queue
    @lanes = Thread::Queue.new
    ids_of_lanes(lanes, kit[queue].shards_count).each { |lane| @lanes << lane }
    @lanes_count = lanes
    @slots = slots
    @start = start
    @died = Hash.new(0)
    @missed = []
  end

  # @param languages [Array<String>] one for each kill, over and over
  def run(each, languages)
    work = Thread::Queue.new
    (points * each).shuffle(random: @kit.random).zip(languages.cycle).each do |point, language|
      work << [point, language, @kit.random.rand(1..2)]
    end
    work.close
    Array.new(@slots) { Thread.new { slot(work) } }.each(&:value)
  end

  def points = POINTS

  private

  # @return [Proxy::Step, nil] nil: the worker kills itself
  def step_of(point)
    script, moment = ON_THE_WIRE[point]
    script && Proxy::Step.new(script: script, moment: moment)
  end

  def push(lane, _point)
    @kit.push(@queue, lane.ids, lane.pushed += 1, sleep: 0.001)
  end

  Lane = Struct.new(:number, :ids, :pushed)

  def ids_of_lanes(lanes, shards)
    ids = Array.new(lanes) { [] }
    number = 0
    while ids.any? { |of_lane| of_lane.size < IDS }
      id = "id#{number += 1}"
      lane = ids[Zlib.crc32(id) % shards % lanes]
      lane << id if lane.size < IDS
    end
    ids.each_with_index.map { |of_lane, lane| Lane.new(lane, of_lane, 0) }
  end

  def slot(work)
    Thread.current.report_on_exception = false
    proxy = Proxy.new(@kit.redis.socket)
    while (point, language, nth = work.pop)
      lane = @lanes.pop
      kill(proxy, lane, point, language, nth)
      @lanes << lane
    end
  ensure
    proxy&.stop
  end

  def kill(proxy, lane, point, language, nth)
    step = step_of(point)
    push(lane, point)
    proxy.rule = step && Proxy::Rule.new(step: step.tap { step.nth = nth })
    process = @start.call(language, nodes: @lanes_count, node: lane.number, threads: 2, lease: 0.2, poll: 0.1, url: proxy.url,
                                    die: step ? nil : "#{point}:#{nth}")
    await(process, lane) ? @died[point] += 1 : @missed << [point, language, process.log.lines.last(3).join]
    process.kill
  end

  # @return [Boolean] has it come to its point?
  def await(process, _lane) = process.end_within(PATIENCE)
end
