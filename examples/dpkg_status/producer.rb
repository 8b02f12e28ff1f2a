# frozen_string_literal: true

# producer.rb - one of the processes that push: the lines on its standard input, at once or spread over so many seconds.
require_relative "post"
require_relative "status_worker"

class Producer
  # @param post [Post, nil] nil: no nginx lies between
  def initialize(lines, post)
    @lines = lines
    @post = post
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
    folded = @post ? @post.push(lines) : StatusWorker.perform_async(lines.map { |line| job(line) }).folded
    Journal.write("pushed", numbers: lines.map { |line| line["number"] }, folded: folded)
  end

  def job(line)
    job = { id: line["package"], payload: line, score: line["number"] }
    job.delete(:score) if ENV["DEMO_WITHOUT_SCORES"] == "1" # to see the checker find it
    job
  end
end

producer = Producer.new($stdin.each_line.map { |line| JSON.parse(line) }, (Post.new(ENV["DEMO_NGINX"]) if ENV["DEMO_NGINX"]))
ARGV.empty? ? producer.push_at_once : producer.push_one_by_one(Float(ARGV.first))
