# frozen_string_literal: true

# The application that the server processes load with -r.
require_relative "workload"

SETTINGS = JSON.parse(ENV.fetch("WORKLOAD"), symbolize_names: true)
SETTINGS.fetch(:seriatim, {}).each { |name, value| Seriatim.public_send(:"#{name}=", value) }
Seriatim.build_splitter = -> { Seriatim.build_by_node_splitter(SETTINGS[:nodes], SETTINGS[:node]) } if SETTINGS[:nodes]
Seriatim.workers = Workload.workers(SETTINGS.fetch(:workers))
