# frozen_string_literal: true

require "json"
require_relative "../../../../spec/crash/kit/journal"

# The workers of the server processes, of the producers and of the examples, all made from the same settings:
# queue name => fields of Seriatim::Worker, and `back_off`, the seconds that retry_in gives.
#
# A payload is its number and what the job does: {"n": 7}, and `sleep` seconds, `wait` for a file, `wait_for_me` for
# one whose name ends with the process' id, `fork` a process of so many seconds, `kill` its process, `fail` until that file is
# there. With `task` it is done by itself: "sent" asks for a checkpoint behind it, "flush" waits for that, too. With `snooze`, which is
# seconds, the run ends with it, and it comes again without the word. DIE=perform_during:3 ends the process in the middle of its third
# run; there are perform_begin and perform_end, too.
module Workload
  # The runs of ids that this process began.
  RUNS = Struct.new(:count, :lock).new(0, Mutex.new)

  module_function

  def worker(queue, settings)
    settings = settings.transform_keys(&:to_sym)
    back_off = settings.delete(:back_off) || 0.1
    Module.new do
      extend Seriatim::Worker
      self.queue_name = queue
      settings.each { |field, value| public_send(:"#{field}=", value) }
      define_singleton_method(:retry_in) { |_count| back_off }
      define_singleton_method(:perform) { |payloads_by_id, batch| Workload.perform(queue, payloads_by_id, batch) }
    end
  end

  def workers(settings) = settings.map { |queue, fields| worker(queue.to_s, fields) }

  def perform(queue, payloads_by_id, batch)
    payloads_by_id.each do |id, payloads|
      journal.start(queue, id, batch.fence(id), batch.retry_count(id), payloads.map { |payload| payload["n"] })
      run = RUNS.lock.synchronize { RUNS.count += 1 }
      kind = "fail"
      step("perform_begin", run)
      tasks = Tasks.new(queue, id, batch)
      kind = payloads.any? { |payload| tasks.run(payload) { act(payload, run) } == :snoozed } ? "snooze" : "end"
    ensure
      journal.finish(kind, queue, id, batch.fence(id)) if kind
      step("perform_end", run)
    end
  end

  def step(point, run)
    @die ||= ENV.fetch("DIE", "").split(":")
    Process.kill(:KILL, Process.pid) && sleep if @die == [point, run.to_s]
  end

  def act(payload, run)
    step("perform_during", run)
    payload.each do |word, value|
      case word
      when "sleep" then sleep(value)
      when "wait_for_me" then sleep(0.005) until File.exist?("#{value}.#{Process.pid}")
      when "wait" then sleep(0.005) until File.exist?(value)
      when "fork" then Process.wait(fork { sleep(value) })
      when "kill" then Process.kill(:KILL, Process.pid) && sleep
      when "fail" then raise "told to fail" unless File.exist?(value)
      end
    end
  end

  # The payloads of a run of an id, those of them that are done by themselves.
  class Tasks
    def initialize(queue, id, batch)
      @queue = queue
      @id = id
      @batch = batch
      @count = 0
    end

    # @return [Symbol] :snoozed when the run ends here
    def run(payload, &act)
      return act.call unless payload["task"]

      note(:task, payload)
      act.call
      payload["snooze"] ? snooze(payload) : checkpoint(payload)
    end

    private

    def snooze(payload)
      @batch.snooze(@id, payload["snooze"], payload: payload.except("snooze"))
      :snoozed
    end

    def checkpoint(payload)
      note(:did, payload)
      @batch.checkpoint(@id, @count += 1)
      return unless payload["task"] == "flush"

      @batch.flush
      note(:confirmed, payload)
    end

    def note(kind, payload) = Workload.journal.task(kind, @queue, @id, @batch.fence(@id), payload["n"])
  end

  def journal = @journal ||= Journal.new(ENV.fetch("JOURNAL"))
end
