# frozen_string_literal: true

# A preloaded application: its parent pushed before the workers were forked, and goes on pushing beside them.
# GET /ID pushes ID three times and asks for it; the body is what was wrong, or "right".
require "seriatim"

module PumaWorker
  extend Seriatim::Worker
  self.fold = :list

  def self.perform(payloads_by_id) = payloads_by_id
end

PARENT = Process.pid
Seriatim.client_pool_size = 2
PumaWorker.perform_async([{ id: "boot" }])
Thread.new do
  (1..).each { |number| PumaWorker.perform_async([{ id: "parent", payload: number }]) && sleep(0.002) }
end

answer = lambda do |id|
  pushed = 3.times.map { |number| PumaWorker.perform_async([{ id: id, payload: [id, number] }]) }
  return "pushes of #{id}: #{pushed}" unless pushed.map { |result| [result.added, result.folded] } == [[1, 0], [0, 1], [0, 1]]

  record = PumaWorker.queries.fetch([id]).first
  record && record[:payloads].map(&:first) == 3.times.map { |number| [id, number] } ? "right" : "asked for #{id}, got #{record}"
end

run lambda { |env|
  body = env["PATH_INFO"] == "/parent" ? PARENT.to_s : answer.call(env["PATH_INFO"].delete_prefix("/"))
  [200, { "X-Pid" => Process.pid.to_s }, [body]]
}
