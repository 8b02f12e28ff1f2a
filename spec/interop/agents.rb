# frozen_string_literal: true

require "json"
require_relative "../support/languages"

# An agent process, and what it is asked.
class AgentProcess
  PATIENCE = 150 # seconds for an answer

  # It answered with an error.
  class Refused < StandardError; end

  attr_reader :language

  def initialize(language, redis_url, log)
    @language = language
    @log = log
    commands = Language::ALL.fetch(language)
    @command = [{ **commands.variables, "REDIS_URL" => redis_url }, *commands.agent, { err: [log, "a"] }]
    start
  end

  # Kills it with SIGKILL and starts another one in its place, which knows no worker.
  def replace
    Process.kill(:KILL, @io.pid)
    @io.close
    start
  end

  # @return what it answered, {"hex"} for bytes
  def ask(verb, **fields)
    @io.puts(JSON.generate(do: verb, **fields))
    raise "#{language} does not answer #{verb}: #{log}" unless @io.wait_readable(PATIENCE)

    line = @io.gets or raise "#{language} ended at #{verb}: #{log}"
    answer = JSON.parse(line)
    answer.key?("error") ? raise(Refused, "#{language}, #{verb}: #{answer["error"]}") : answer["result"]
  end

  def worker(queue, **settings) = ask("worker", queue: queue, settings: settings)
  def push(queue, *jobs) = ask("push", queue: queue, jobs: jobs)
  # arguments: as the Actions take them
  def action(queue, name, *arguments) = ask("action", queue: queue, action: name, arguments: arguments)
  def query(queue, name, *arguments) = ask("query", queue: queue, query: name, arguments: arguments)
  def fetch(queue, *ids) = query(queue, "fetch", ids)
  def explain(queue, id) = ask("explain", queue: queue, id: id)
  def metrics(queue) = ask("metrics", queue: queue)
  # A call on a two-phase commit set.
  def ick(call, *arguments) = ask("ick", call: call, arguments: arguments)
  def check(queue) = ask("check", queue: queue)

  # Runs a server until `count` ids were run, for `seconds` at most. error: nil, or the text with which each run fails.
  # @return [Array<Hash>] what perform was given, by id and fence
  def run(queue, count, error: nil, seconds: 100)
    told = ask("run", queue: queue, runs: count, seconds: seconds, fail: error)
    @exhausted = told["exhausted"]
    told["runs"].sort_by { |run| [run["id"].to_s, run["fence"]] }
  end

  # What retries_exhausted was told in the last run.
  attr_reader :exhausted

  # Lets it end.
  # @return [Boolean] well
  def close
    @io.close
    $?.success?
  end

  private

  def start = @io = IO.popen(@command, "r+:UTF-8")

  def log = File.read(@log).lines.last(20).join
end
