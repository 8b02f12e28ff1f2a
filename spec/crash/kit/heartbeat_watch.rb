# frozen_string_literal: true

require "socket"
require_relative "journal"
require_relative "resp"

# Reads the heartbeats in Redis and writes to the journal which process' heartbeat ended, or may have ended between two reads. That of a
# dead process always does; that of a living one if the machine, or Redis, gave it no time: which takes its lease away as surely
# as a freeze does.
class HeartbeatWatch
  INTERVAL = 0.02
  KEY = "seriatim:{/nodes}:alive"

  # @param socket [String] of Redis
  def initialize(socket, journal)
    @socket = socket
    @journal = journal
    @seen = {} # node => when its heartbeat ends, in Redis' seconds
    @thread = Thread.new { watch until @ending }
  end

  def stop
    @ending = true
    @thread.join
  end

  private

  def watch
    UNIXSocket.open(@socket) do |io|
      until @ending
        look(Journal.now, *ask(io)) # the time before the request: rather too early than too late
        sleep INTERVAL
      end
    end
  rescue SystemCallError, IOError
    @seen.clear
    sleep INTERVAL
  end

  def look(at, now, nodes)
    @seen.each { |node, ends| @journal.write(:lapsed, node[/-(\d+)-\h+\z/, 1], at - (now - ends)) if ends <= now }
    @seen = nodes
  end

  # @return [Float, Hash] the time there, and when each heartbeat ends
  def ask(io)
    io.write("*1\r\n$4\r\nTIME\r\n*5\r\n$6\r\nZRANGE\r\n$#{KEY.bytesize}\r\n#{KEY}\r\n$1\r\n0\r\n$2\r\n-1\r\n$10\r\nWITHSCORES\r\n")
    reader = Resp.new
    answers = []
    answers.concat(reader.take(io.readpartial(65_536))) while answers.size < 2
    clock, rows = answers.map { |answer| Resp.words(answer) }
    [clock[0].to_i + (clock[1].to_i / 1e6), rows.each_slice(2).to_h { |node, ends| [node, ends.to_f / 1000] }]
  end
end
