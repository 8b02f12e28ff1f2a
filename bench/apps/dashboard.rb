# frozen_string_literal: true

# `dashboard.rb fill QUEUE...` gives each queue ids that are due later, failed or died. `dashboard.rb ask` reads paths from
# standard input, asks the dashboard's API for each and prints [status, ms]. REDIS_URL.
$LOAD_PATH.unshift File.expand_path("../../ruby/lib", __dir__)
require "json"
require "stringio"
require "seriatim"
require "seriatim/web"

LATER = 20
FAILED = 10
DEAD = 10

def fill(name)
  worker = Module.new do
    extend Seriatim::Worker
    self.queue_name = name
  end
  worker.perform_async(Array.new(DEAD) { |n| { id: "dead-#{n}", payload: "", retry_count: 3 } })
  worker.actions.kill_all_failed_jobs
  worker.perform_async([*Array.new(FAILED) { |n| { id: "failed-#{n}", payload: "", retry_count: 2, delay: 3600 + n } },
                        *Array.new(LATER) { |n| { id: "later-#{n}", payload: "", delay: 7200 + n } }])
end

def ask(target)
  path, query = target.split("?", 2)
  env = { "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => path, "QUERY_STRING" => query.to_s, "rack.input" => StringIO.new }
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  status, = Seriatim::Web.call(env)
  [status, (Process.clock_gettime(Process::CLOCK_MONOTONIC) - start) * 1000]
end

if ARGV.first == "fill"
  ARGV.drop(1).each { |name| fill(name) }
else
  $stdout.sync = true
  $stdin.each_line(chomp: true) { |target| puts JSON.generate(ask(target)) }
end
