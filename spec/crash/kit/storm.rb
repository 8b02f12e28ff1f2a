# frozen_string_literal: true

require_relative "kit"

# Steady load while faults are made: pushes numbers to all ids, in order, as fast as the workers follow, and
# sends SCRIPT FLUSH twenty times a second.
class Storm
  FLUSH = 0.05

  attr_reader :pushed, :flushes

  # @param ids [Array<String>] every number goes to each of them
  # @param behind [Integer] ids that may wait before the next number is pushed
  # @param payload [#call] random => words beside the number
  def initialize(kit, queue, ids = [], behind: ids.size / 2, payload: ->(random) { { sleep: random.rand(0.01).round(4) } })
    @kit = kit
    @queue = queue
    @ids = ids
    @behind = behind
    @payload = payload
    @random = Random.new(kit.seed)
    @pushed = @flushes = 0
  end

  # Keeps up the load during the block and returns the block's value. A second call goes on with the next number.
  # @param pushes [Boolean] or are scripts only to be forgotten?
  def during(pushes: true)
    @ending = false
    threads = [(Thread.new { push_all } if pushes), Thread.new { flush_scripts }].compact
    threads.each { |thread| thread.report_on_exception = false }
    result = yield
    @ending = true
    threads.each(&:value)
    result
  ensure
    @ending = true
    threads&.each { |thread| thread.join rescue nil } # rubocop:disable Style/RescueModifier
  end

  private

  def push_all
    until @ending
      if @kit[@queue].metrics[:length] > @behind
        sleep 0.02
      else
        @pushed += 1
        @ids.each_slice(100) { |ids| @kit.push(@queue, ids, @pushed, **@payload.call(@random)) }
      end
    end
  end

  def flush_scripts
    until @ending
      @kit.redis.call("SCRIPT", "FLUSH")
      @flushes += 1
      sleep FLUSH
    end
  end
end
