# frozen_string_literal: true

# What was to be reached, and what was.
class Goals
  Goal = Struct.new(:text, :limit, :unit, :measured) do
    def most? = text.match?(/at most|below/)
    def met? = text.include?("below") ? measured < limit : (most? ? measured <= limit : measured >= limit)
    def row = [text, measured ? format(unit, measured) : "not measured", measured ? (met? ? "yes" : "**no**") : "-"]
  end

  def initialize(results)
    @results = results
  end

  def rows = [*rates, *pushes, *costs, *programs].map(&:row)

  private

  def rates
    bullmq = @results.best_bullmq
    [goal("Ruby processes at least 10 times what Sidekiq does", 10, "%.1f", ratio("ruby", "sidekiq", :process)),
     goal("Ruby processes at least 40 times what Lowkiq does", 40, "%.1f", ratio("ruby", "lowkiq", :process)),
     goal("Ruby processes at least 6 times what BullMQ does", 6, "%.1f (#{@results.title(bullmq)})", ratio("ruby", bullmq, :process)),
     goal("Python processes at least 80 times what Celery does", 80, "%.1f", ratio("python", "celery", :process)),
     goal("Lua processes at least what Ruby does", 1, "%.2f", ratio("lua", "ruby", :process)),
     goal("C processes at least half of what the bare scripts do", 0.5, "%.2f", share_of_ceiling)]
  end

  # bench/ceiling says what the bare scripts do: "rate", jobs a second at the claim size of a server.
  def share_of_ceiling
    rate = @results[:programs].dig("ceiling", "rate")
    ours = @results.race.figure("c", :process)
    ours / rate if ours && rate
  end

  def pushes
    [goal("Ruby enqueues in bulk at least 3 times what Sidekiq does", 3, "%.2f", ratio("ruby", "sidekiq", :bulk)),
     goal("Ruby enqueues one by one at least what Sidekiq does", 1, "%.2f", ratio("ruby", "sidekiq", :single)),
     *together,
     goal("idle, push to perform: Ruby's p50 is below Sidekiq's", latency("sidekiq", 0), "%.2f ms", latency("ruby", 0)),
     goal("idle, push to perform: Ruby's p99 is below 2 ms", 2, "%.2f ms", latency("ruby", 1))]
  end

  # What eight threads of Ruby enqueue beside eight threads of Sidekiq, which has no pipelines of calls.
  def together
    { together: "one by one", pipelined: "in pipelines" }.map do |what, how|
      goal("8 threads of Ruby enqueue #{how} at least 3 times what those of Sidekiq do one by one", 3, "%.2f", ratio("ruby", "sidekiq", what, other_what: :together))
    end
  end

  def costs
    [goal("Redis CPU a job while Ruby processes: at most a tenth of Sidekiq's", 0.1, "%.3f", ratio("ruby", "sidekiq", :process, :redis_cpu)),
     goal("Redis memory: at most 140 bytes a waiting job", 140, "%.0f", @results[:memory].values_at(*@results.ours.map(&:name)).compact.first)]
  end

  # What the programs of their own find, each with the limit that it names.
  def programs
    @results[:programs].values.flat_map { |figures| figures.fetch("goals", []) }.map do |found|
      goal("#{found["text"]}: at most #{found["limit"]}", found["limit"], "%.2f", found["measured"])
    end
  end

  # Nothing was measured if there is nothing to hold it against.
  def goal(text, limit, unit, measured) = Goal.new(text, limit, unit, limit && measured)

  def ratio(name, other, what, field = :rate, other_what: what) = @results.race.ratio(name, other, what, field, other_what: other_what)
  def latency(name, share) = @results[:latency].dig(name, share)
end
