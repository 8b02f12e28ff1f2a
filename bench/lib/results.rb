# frozen_string_literal: true

# All that was measured: rates by the race, and figures that were taken once. What failed is not there.
class Results
  attr_reader :contestants, :race, :missing

  # latency: name => [p50, p99, p99.9] in ms; memory: name => bytes a waiting job; idle: queues => [commands/s, % CPU];
  # programs: name => what it printed
  def initialize(contestants, race, missing)
    @contestants = contestants
    @race = race
    @missing = missing
    @once = Hash.new { |once, what| once[what] = {} }
  end

  def [](what) = @once[what]
  def title(name) = @contestants.find { |contestant| contestant.name == name }&.title
  def ours = @contestants.select(&:ours?)
  def peers = @contestants.reject(&:ours?)
  def in(what) = @contestants.select { |contestant| contestant.takes_part?(what) && race.figure(contestant.name, what) }

  # BullMQ at the concurrency that suits it.
  def best_bullmq = %w[bullmq bullmq50].max_by { |name| race.figure(name, :process) || 0 }

  # A number of a program's rows: the cell of a column, in the row that begins with this.
  def cell(program, row, column)
    table = self[:programs][program] or return
    at = table["columns"].index(column) or return
    table["rows"].find { |cells| cells.first.to_s == row }&.at(at)
  end
end
