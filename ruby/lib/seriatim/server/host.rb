# frozen_string_literal: true

module Seriatim
  # The main function of a thread that runs jobs: takes a delivery of its group and runs it, or waits for one.
  # @api private
  class Host
    attr_reader :server, :runner, :group

    def initialize(server, group, scheduler)
      @server = server
      @runner = server.runner
      @group = group
      @scheduler = scheduler unless scheduler.is_a?(Schedulers::Builtin)
    end

    # Until the runner says that there will be no more. Interrupts reach waits and user code only.
    def run
      Thread.handle_interrupt(Interrupts::MASKED) do
        found = take
        found = found ? execute(found) : wait until found == :closed
      end
    rescue Closed
      raise unless @server.stopping? || @server.forked?
    end

    # All ids of the delivery are done.
    # @return [Native::Delivery, Symbol, nil] as take; a delivery is the same object, that holds what comes next
    def advance(delivery) = @runner.advance(@group, delivery)

    # Does the application's own scheduler choose?
    def scheduled? = !@scheduler.nil?

    private

    # @return [Native::Delivery, Symbol, nil] nil: wait; :closed: there will be no more
    def take = @scheduler ? scheduled : @runner.take(@group)

    def execute(delivery)
      execution = Execution.new(self, delivery)
      execution.call ? execution.next_delivery : take
    end

    def wait
      Thread.handle_interrupt(Interrupts::UNMASKED) do
        @runner.wait(@group, @scheduler && Seriatim.poll_interval)
      end
      take
    end

    # Without a choice the core may still have something that no scheduler chooses: dead jobs to tell of, ids in doubt, the end.
    def scheduled
      rows = candidate_rows
      candidates = rows.map { |number, *rest| Schedulers::Candidate.new(@server.worker(number).module, *rest) }
      place = choose(candidates) unless rows.empty?
      place ? @runner.take_from(@group, rows.fetch(place).first(2)) : @runner.take_unscheduled(@group)
    end

    # All of them: a queue may have more shards by now than when the server started.
    def candidate_rows
      @most ||= @server.shards_count
      rows = @runner.candidates(@group, @most)
      rows = @runner.candidates(@group, @most *= 2) while rows.size >= @most
      rows
    end

    # The scheduler gets a list of its own, so sorting or emptying it does not change which row a place stands for.
    # @return [Integer, nil] the place of the scheduler's choice in candidates; nil: it does not choose now
    def choose(candidates)
      ended = true
      chosen = Thread.handle_interrupt(Interrupts::UNMASKED) { @scheduler.call(candidates.dup) }
      ended = false
      place_of(candidates, chosen) unless chosen.nil?
    rescue Exception => e # rubocop:disable Lint/RescueException
      ended = false
      complain(e.class, "the scheduler raised #{Log.describe(e)}")
    ensure
      give_up_scheduler if ended && !@server.leaving?
    end

    # A candidate is known by itself, or by its worker and index where the scheduler made a copy of it.
    def place_of(candidates, chosen)
      place = chosen.is_a?(Schedulers::Candidate) && candidates.index { |known| known.equal?(chosen) || known.same_shard?(chosen) }
      place || complain(:choice, "the scheduler chose #{Validate.describe(chosen)}, which is not one of its candidates")
    end

    # @return [Integer] the place of the oldest candidate
    def complain(kind, text)
      @server.error_once(kind, "#{text}; the oldest goes first (further errors of this kind are not logged)")
      0
    end

    # The thread that takes this one's place would be ended by it as well.
    def give_up_scheduler
      @scheduler = nil
      Log.error("hook", "the scheduler ended its thread; the core's scheduler is used from now on")
    end
  end
  private_constant :Host
end
