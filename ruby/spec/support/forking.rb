# frozen_string_literal: true

# Forks while another thread connects, and writes how the child ended. ARGV: the URL, whose host is looked up without end.
require "seriatim"

module Forking
  extend Seriatim::Worker
end

connection = Seriatim.module_eval { const_get(:Connection) }.new(ARGV[0], "seriatim")
thread = Thread.new { connection.layout(Forking.queue_settings) }
sleep 0.01 until thread.stop?
sleep 0.1
_, status = Process.wait2(fork { GC.start || exit(7) })
$stdout.syswrite("#{status}\n")
exit!
