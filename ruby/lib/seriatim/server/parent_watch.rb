# frozen_string_literal: true

# The plugin of Puma loads this before the command, whose standard input is a pipe from Puma. When Puma writes to it or is gone, in
# whatever way, the command stops, as by TERM.
module Seriatim
  input = $stdin.dup
  $stdin.reopen(File::NULL) # what jobs start must not read from the pipe

  Thread.new do
    input.read(1)
    Process.kill(:TERM, Process.pid) unless defined?(Signals) && Signals.told_to_stop
  end
end
