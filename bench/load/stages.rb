# frozen_string_literal: true

# stages.rb - the two chained workers of the load test, whatever the system: the first passes on what it gets, the second
# sleeps for each payload. Each notes its payloads: when one was pushed and when its perform began, a line each.
module Stages
  SHARDS = { "first" => 75, "second" => 50 }.freeze
  BATCH = 30
  SLEEP = 0.1

  module_function

  # Passes the payloads on by the block, as jobs.
  def first(payloads_by_id)
    note("first", payloads_by_id)
    yield(payloads_by_id.flat_map { |id, payloads| payloads.map { |payload| { id: id, payload: { "at" => now, "n" => payload["n"] } } } })
  end

  def second(payloads_by_id)
    note("second", payloads_by_id)
    payloads_by_id.each_value { |payloads| payloads.each { sleep SLEEP } }
    note("done", payloads_by_id)
  end

  def note(stage, payloads_by_id)
    time = now
    lines = payloads_by_id.each_value.flat_map { |payloads| payloads.map { |payload| "#{payload["n"]} #{payload["at"]} #{time}\n" } }
    file(stage).syswrite(lines.join)
  end

  def file(stage)
    @lock.synchronize { @files[stage] ||= File.open("#{ENV.fetch("LOAD_FOLDER")}/#{stage}", File::WRONLY | File::APPEND | File::CREAT) }
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  @lock = Mutex.new
  @files = {}
end
