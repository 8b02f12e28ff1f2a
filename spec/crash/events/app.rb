# frozen_string_literal: true

# Handles the events of events_spec.rb: appends "NAME begin EVENT" to TRACE, waits until the file GATE exists, appends "NAME end EVENT".
require "seriatim"

NAME, TRACE, GATE = ENV.values_at("NAME", "TRACE", "GATE")

Seriatim.lease_time = 8
Seriatim.poll_interval = 0.2

def note(text) = File.write(TRACE, "#{NAME} #{text}\n", mode: "a")

handle = lambda do |event, _context|
  note("begin #{event}")
  sleep 0.01 until File.exist?(GATE)
  note("end #{event}")
  true
end

events = Seriatim.events("shop")
events.on("Paid", max_running: 5, &handle)
events.on("Slow", max_running: 1, &handle)
events.on("Last", attempts: 1, &handle)

# Without a gate; TYPE.EVENT.CONTEXT is noted.
%w[One Two Three].each { |type| events.on(type, max_running: 3) { |event, context| note("ran #{type}.#{event}.#{context["of"]}") || true } }
events.on("Fails", attempts: 10, retry_in: [0]) { |event, context| note("ran Fails.#{event}.#{context["of"]}") && false }
