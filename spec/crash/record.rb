# frozen_string_literal: true

# A user's own worker under the crash kit: requiring this journals every run. See README.md. Does nothing where JOURNAL is not set.
require "seriatim"
require_relative "kit/journal"

module CrashRecord
  module_function

  # The numbers of an id's payloads are their scores.
  def begin_all(batch, queue)
    batch.ids.each { |id| journal.start(queue, id, batch.fence(id), batch.retry_count(id), batch.scores(id).map(&:to_i)) }
  end

  def end_all(batch, queue, failed)
    batch.ids.each do |id|
      outcome = batch.outcome(id) || (failed ? :failed : :done)
      journal.finish(outcome == :done ? "end" : "fail", queue, id, batch.fence(id))
    end
  end

  # DIE=perform_during:3: by SIGKILL, a millisecond into the third run.
  def step(point)
    @die ||= ENV.fetch("DIE", "").split(":")
    return unless @die == [point, @runs.to_s]

    point == "perform_during" ? Thread.new { sleep(0.001) && kill } : kill && sleep
  end

  def kill = Process.kill(:KILL, Process.pid)

  def run(worker, batch)
    begin_all(batch, worker.queue_name)
    @runs = @runs.to_i + 1
    step("perform_begin")
    step("perform_during")
    failed = true
    result = yield
    failed = false
    result
  ensure
    end_all(batch, worker.queue_name, failed)
    step("perform_end")
  end

  def journal = @journal ||= Journal.new(ENV.fetch("JOURNAL"))
end

if ENV["JOURNAL"]
  Seriatim.lease_time = Float(ENV.fetch("CRASH_LEASE", "0.5"))
  Seriatim.server_middlewares.unshift(->(worker, batch, &block) { CrashRecord.run(worker, batch, &block) })
end
