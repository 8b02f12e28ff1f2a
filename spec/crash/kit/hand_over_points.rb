# frozen_string_literal: true

require_relative "kill_points"

# Kills workers between a push that has claimed its job for them and the message that says so. The push reads that somebody is subscribed,
# and the worker is dead before it has read the message.
class HandOverPoints < KillPoints
  POINTS = %w[handed_over].freeze

  def points = POINTS

  private

  def step_of(_point) = Proxy::Step.new(script: nil, moment: :message)

  def push(*) = nil # what waits when a worker comes, it claims itself

  # One job at a time, to an owner that sleeps in between.
  def await(process, lane)
    deadline = Journal.now + PATIENCE
    until (dead = process.end_within(0.02)) || Journal.now > deadline
      @kit.push(@queue, [lane.ids[lane.pushed % lane.ids.size]], lane.pushed += 1, sleep: 0.001)
    end
    dead
  end
end
