# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/task_model"

# Random sequences of pushes, checkpoints, flushes, snoozes and failures, through the core with a real Redis and through a model of
# the rules: every run must be given the same payloads in the same order, with the same retry_count.
RSpec.describe "Checkpoints and snoozes beside a model" do
  include CrashKit

  it "R-CHECKPOINT-1, R-CHECKPOINT-4, R-SNOOZE-2, R-SNOOZE-3 hold in random sequences, in every fold mode, with few and many payloads" do
    Seriatim.redis = kit.redis.url
    models = %w[list merge last first].each_with_index.map { |fold, number| TaskModel.new("Model-#{fold}", fold, kit.seed + number) }
    server = Seriatim::Server.new(workers: models.map(&:worker), threads: 4).start
    deadline = Journal.now + Figures.count(6, 300)
    enough = -> { models.all? { |model| model.runs > 20 } && models.first(2).all? { |model| model.spilled.positive? } }
    while (Journal.now < deadline || !enough.call) && models.all? { |model| model.wrong.empty? }
      models.each(&:begin_round)
      kit.eventually { models.all? { |model| model.idle? || model.wrong.any? } }
    end
    server.stop(10)
    expect(models.flat_map { |model| model.wrong.first(3) }).to eq([])
    Figures.note("F1", "random runs beside a model, and of spilled ids", "#{models.sum(&:runs)}, #{models.sum(&:spilled)}")
  end
end
