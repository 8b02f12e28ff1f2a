# frozen_string_literal: true

# A process that pushes numbers 1..count to each of its ids, one by one, and notes each push that returned. One that too few
# replicas have goes again.
require "seriatim"
require_relative "workload"

SETTINGS = JSON.parse(ENV.fetch("WORKLOAD"), symbolize_names: true)
Seriatim.push_timeout = 50 # outlasts the faults of the crash kit
SETTINGS.fetch(:seriatim, {}).each { |name, value| Seriatim.public_send(:"#{name}=", value) }
worker = Workload.worker(SETTINGS.fetch(:queue), SETTINGS.fetch(:workers).fetch(SETTINGS.fetch(:queue).to_sym))
until_file = SETTINGS[:until]
payload = SETTINGS.fetch(:payload, {})

(1..SETTINGS.fetch(:count)).each do |number|
  SETTINGS.fetch(:ids).each do |id|
    begin
      worker.perform_async([{ id: id, payload: { n: number, **payload } }])
    rescue Seriatim::NotReplicated
      retry
    end
    Workload.journal.pushed(worker.queue_name, id, [number])
  end
  sleep(SETTINGS.fetch(:pause, 0))
  break if until_file && File.exist?(until_file)
end
