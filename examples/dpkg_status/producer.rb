# frozen_string_literal: true

# producer.rb - one of the processes that push: the lines on its standard input, at once or spread over so many seconds.
require_relative "status_worker"

class Producer
  def initialize(lines)
    @lines = lines
  end

  def push_at_once = @lines.each_slice(100) { |lines| push(lines) }

  # One push a line.
  def push_one_by_one(seconds)
    @lines.each do |line|
      push([line])
      sleep seconds / @lines.size
    end
  end

  private

  def push(lines)
    result = StatusWorker.perform_async(lines.map { |line| job(line) })
    Journal.write("pushed", numbers: lines.map { |line| line["number"] }, folded: result.folded)
  end

  def job(line)
    job = { id: line["package"], payload: line, score: line["number"] }
    job.delete(:score) if ENV["DEMO_WITHOUT_SCORES"] == "1" # to see the checker find it
    job
  end
end

producer = Producer.new($stdin.each_line.map { |line| JSON.parse(line) })
ARGV.empty? ? producer.push_at_once : producer.push_one_by_one(Float(ARGV.first))
