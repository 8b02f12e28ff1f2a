# frozen_string_literal: true

# The application of processes that are asked to leave. A payload is a word, what the job does, and a number for it; each
# start and end is a line "pid id word" of the file JOURNAL.
require "seriatim"
require "fiddle"

# Does what it is told.
module Exits
  extend Seriatim::Worker
  self.queue_name = "Exits"
  self.shards_count = 3

  HELD_OPEN = Fiddle::Function.new(Fiddle::Handle::DEFAULT["open"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_INT], Fiddle::TYPE_INT, need_gvl: true)
  def self.retry_in(_count) = 60

  def self.perform(payloads_by_id)
    payloads_by_id.each do |id, payloads|
      payloads.each do |(word, number)|
        note(id, "start")
        act(word, number)
        note(id, "end")
      end
    end
  end

  def self.act(word, number)
    case word
    when "sleep" then sleep(number)
    when "hold" then hold if first?
    when "exit" then exit(number)
    when "term" then (Process.kill(:TERM, Process.pid) && sleep(0.3))
    when "main exit" then (Thread.main.raise(SystemExit) || sleep(0.3))
    when "main interrupt" then (Thread.main.raise(Interrupt) || sleep(0.3))
    when "thread exit" then (Thread.new { exit(number) } && sleep(0.3))
    when "exit!" then exit!(number)
    end
  end

  # In C, with the interpreter's lock, until somebody writes to the FIFO.
  def self.hold
    nil until HELD_OPEN.call("#{ENV.fetch("JOURNAL")}.gate", File::RDONLY) >= 0
  end

  # In the first process that asks.
  def self.first?
    File.open("#{ENV.fetch("JOURNAL")}.first", File::CREAT | File::EXCL).close
    true
  rescue Errno::EEXIST
    false
  end

  def self.note(id, word) = File.write(ENV.fetch("JOURNAL"), "#{Process.pid} #{id} #{word}\n", mode: "a")
end

Seriatim.workers = [Exits]
Seriatim.lease_time = 3
Seriatim.poll_interval = 0.2
case ENV["HOOK"]
when "init" then Seriatim.on_server_init = -> { raise NotImplementedError, "no init" }
when "init exits" then Seriatim.on_server_init = -> { exit 7 }
when "last_words" then (Seriatim.on_server_init = -> { raise "no init" }) && (Seriatim.last_words = ->(_) { raise Exception, "no words" })
end
