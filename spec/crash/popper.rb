# frozen_string_literal: true

# popper.rb - the crash kit's popper in Ruby: what popper.c does. With a URL it pops through the web application there, without the library.
#
#   popper.rb QUEUE ttr_seconds max [URL]
require "seriatim"
require_relative "kit/journal"
require_relative "kit/web_queue"

class Popper
  WAIT = 0.5

  def initialize(queue, ttr, max, url = nil)
    @queue = queue
    @settings = { wait: WAIT, ttr: Float(ttr), max: Integer(max) }
    @take = url ? WebQueue.new(url, queue).method(:pop) : ->(**settings) { Seriatim.pop(queue, **settings) }
    @journal = Journal.new(ENV.fetch("JOURNAL"))
    @die = ENV.fetch("DIE", "").split(":")
    @runs = 0
  end

  def run
    trap("TERM") { @ending = true }
    @journal.write(:popper, Process.pid, @settings[:ttr])
    warn "popper start "
    pop until @ending
  end

  private

  def pop
    delivery = @take.call(**@settings) and run_one(delivery)
  rescue Seriatim::Error, WebQueue::Failed => e
    warn "pop: #{e.message}"
    sleep 0.1
  end

  def run_one(delivery)
    @runs += 1
    step("popped")
    @journal.start(@queue, delivery.id, delivery.fence, -1, delivery.payloads.map { |payload| payload["n"] })
    delivery.payloads.each { |payload| sleep(payload.fetch("sleep", 0)) }
    step("perform_during")
    @journal.finish(done? ? "end" : "fail", @queue, delivery.id, delivery.fence)
    step("acknowledge")
    report(delivery)
    step("acknowledged")
  end

  def report(delivery)
    done? ? delivery.ack : delivery.release
    @journal.finish("reported", @queue, delivery.id, delivery.fence)
  rescue Seriatim::Stale
    @journal.finish("refused", @queue, delivery.id, delivery.fence)
  end

  # Every tenth run ends without an acknowledgement, and its id comes again.
  def done? = @runs % 10 != 0

  def step(point)
    Process.kill(:KILL, Process.pid) && sleep if @die == [point, @runs.to_s]
  end
end

Popper.new(*ARGV).run
