# frozen_string_literal: true

# Runs a server until a line comes, then stops it or ends without a stop. ARGV: URL, "stop" or "exit".
require "seriatim"

module LookedUp
  extend Seriatim::Worker
  def self.perform(payloads_by_id) = payloads_by_id
end

Seriatim.redis = ARGV[0]
Seriatim.logger = nil
server = Seriatim::Server.new(workers: [LookedUp]).start
$stdout.syswrite("started\n")
$stdin.gets
server.stop(0) if ARGV[1] == "stop"
exit 7
