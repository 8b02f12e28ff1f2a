# frozen_string_literal: true

# The verbs of the command `seriatim` that Rails developers look for among the tasks, with the settings of the application.
namespace :seriatim do
  run = lambda do |*words|
    require "seriatim/cli"
    code = Seriatim::CLI.run(words)
    exit(code) unless code.zero?
  end

  desc "List the queues of Seriatim with their figures"
  task(queues: :environment) { run.call("queues") }

  desc "List the running servers of Seriatim"
  task(nodes: :environment) { run.call("nodes") }

  desc "Check that the keys of Seriatim's queues agree with each other, or those of one queue"
  task(:check, [:queue] => :environment) { |_, names| run.call("check", *names.to_a) }
end
