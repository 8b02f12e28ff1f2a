# frozen_string_literal: true

# agent.rb - Seriatim for Ruby, told what to do: a request a line on standard input, an answer a line on standard output.
require "json"
require "logger"
require "seriatim"

Seriatim.format_error = :message.to_proc # the pairs compare messages
Seriatim.push_timeout = 50 # longer than a connection takes to be given up

# The protocol is in README.md.
class Agent
  def initialize
    @workers = {}
  end

  def serve(input, output)
    input.each_line do |line|
      output.puts(JSON.generate(answer(decode(JSON.parse(line)))))
      output.flush
    end
  end

  private

  def answer(request)
    { result: encode(result(request)) }
  rescue StandardError => e
    { error: "#{e.class}: #{e.message}" }
  end

  def result(request)
    queue = request["queue"]
    case request["do"]
    when "worker" then declare(queue, request["settings"])
    when "push" then worker(queue).perform_async(request["jobs"]).to_h
    when "run" then run(worker(queue), request["runs"], request["seconds"], request["fail"])
    when "query" then worker(queue).queries.public_send(request["query"], *request["arguments"])
    when "action" then worker(queue).actions.public_send(request["action"], *request["arguments"])
    when "explain" then worker(queue).queries.explain(request["id"])
    when "metrics" then worker(queue).metrics
    when "ick" then (@ick ||= Seriatim::Ick.new).public_send(request["call"], *request["arguments"])
    when "check" then worker(queue).actions.check[:findings]
    else raise ArgumentError, "what is #{request["do"].inspect}?"
    end
  end

  def worker(queue) = @workers.fetch(queue)

  # The worker of this queue's code in this process; a later one takes its place.
  def declare(queue, settings)
    @workers[queue] = Module.new do
      extend Seriatim::Worker
      self.queue_name = queue
      retry_in = settings.delete("retry_in") || 60
      settings.each { |name, value| public_send(:"#{name}=", value) }
      define_singleton_method(:retry_in) { |_count| retry_in }
      extend Recorder
    end
    nil
  end

  # Runs a server until `count` ids were run, for `seconds` at most.
  def run(worker, count, seconds, error)
    worker.begin_recording(error)
    server = Seriatim::Server.new(workers: [worker], threads: 4).start
    deadline = now + seconds
    sleep 0.005 until worker.runs.size >= count || now > deadline
    server.stop(10)
    { runs: worker.runs, exhausted: worker.exhausted }
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # {"hex": …} is bytes.
  def decode(value)
    case value
    when Array then value.map { |item| decode(item) }
    when Hash then value.keys == ["hex"] ? [value["hex"]].pack("H*") : value.transform_values { |item| decode(item) }
    else value
    end
  end

  def encode(value)
    case value
    when Array then value.map { |item| encode(item) }
    when Hash then value.transform_values { |item| encode(item) }
    when String then value.dup.force_encoding(Encoding::UTF_8).valid_encoding? ? value : { hex: value.unpack1("H*") }
    else value
    end
  end

  # What a worker was given.
  module Recorder
    attr_reader :runs, :exhausted

    def begin_recording(error)
      @error = error
      @runs = []
      @exhausted = []
    end

    def perform(payloads_by_id, batch)
      payloads_by_id.each do |id, payloads|
        @runs << { id: id, payloads: payloads, scores: batch.scores(id), contexts: batch.contexts(id),
                   retry_count: batch.retry_count(id), error: batch.error(id), fence: batch.fence(id) }
      end
      raise @error if @error
    end

    def retries_exhausted(jobs) = @exhausted.concat(jobs)
  end
end

Seriatim.logger = Logger.new($stderr)
Agent.new.serve($stdin, $stdout)
