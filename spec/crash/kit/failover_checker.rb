# frozen_string_literal: true

require_relative "checker"

# Judges a journal with failovers: "failover 0 NOW" is written when the master is dead. The next one may know nothing of claims
# that the dead one gave, those with fences up to NOW: another process may take such an id, then the run counts for nothing and
# whoever began it late is refused (late). Nothing else is forgiven: fences never fall, order is kept.
class FailoverChecker < Checker
  def initialize(lines)
    @failed_over = 0
    super
  end

  def on_failover(line)
    @failed_over = line.fence
  end

  def on_start(line)
    id = @ids[key(line)]
    return late << "#{key(line)} #{line.numbers.first}.. pid #{line.pid}" if line.fence <= id.fence && forgotten?(line, line.fence)

    super
  end

  private

  # Of the id of this line.
  def forgotten?(_line, fence) = fence <= @failed_over

  def check_open(id, line, name)
    id.open.each do |fence, run|
      next if run.void || !forgotten?(line, fence)

      run.void = true
      late << "#{key(line)} #{run.numbers.first}.. pid #{run.pid}, claimed under #{fence}"
    end
    super
  end
end
