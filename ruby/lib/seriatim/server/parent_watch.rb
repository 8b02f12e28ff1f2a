# frozen_string_literal: true

# The plugin of Puma loads this before the command. Its end of standard input is closed when Puma is gone, in whatever way; then the
# command stops, as by TERM.
Thread.new do
  $stdin.read
  Process.kill(:TERM, Process.pid)
end
