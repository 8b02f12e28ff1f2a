# frozen_string_literal: true

# A Ruby with Seriatim loaded that forks a server for each line of its input: [variables, arguments of the command, log, program] as
# JSON. A program that is not null runs with these arguments in place of the command. It answers with the server's process id. Servers are
# orphans, so that the driver, a subreaper, inherits them.
$LOAD_PATH.unshift File.expand_path("../../../ruby/lib", __dir__)
require "json"
require "seriatim/cli"
require "seriatim/server/signals"
require "seriatim/server/supervisor"
require_relative "../../../ruby/spec/processes/support/workload"
require_relative "web_queue"

def serve(variables, arguments, log, program)
  fork do
    ENV.update(variables)
    $stdin.reopen(File::NULL)
    $stdout.reopen(log, "a").sync = true
    $stderr.reopen($stdout)
    exit Seriatim::CLI.run(arguments) unless program

    ARGV.replace(arguments)
    load program
  end
end

$stdout.sync = true
$stdin.each_line do |line|
  reader, writer = IO.pipe
  Process.wait(fork do
    writer.puts(serve(*JSON.parse(line)))
    exit!(0)
  end)
  puts reader.gets
  [reader, writer].each(&:close)
end
