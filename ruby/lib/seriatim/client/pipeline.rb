# frozen_string_literal: true

module Seriatim
  # What a push inside of {Seriatim.pipelined} returns. After the block it has the fields of {PushResult}, too.
  class PushFuture
    # @return [PushResult]
    # @raise [Invalid] the block has not ended yet, or an exception ended it: nothing was pushed
    # @raise [Error] this push failed, as perform_async would have
    def value
      raise Invalid, "the result of this push is there when the block of pipelined has ended, and only if no exception ended it" unless filled?
      raise @error if @error

      @result
    end

    PushResult.members.each { |field| define_method(field) { value.public_send(field) } }

    # @api private
    def fill(result, error)
      @error = error
      @result = result
    end

    # @api private
    def filled? = defined?(@result) ? true : false
  end

  # The pushes of a block of {Seriatim.pipelined}, of one fiber.
  # @api private
  class Pipeline
    KEY = :seriatim_pipeline # of the fiber
    Waiting = Struct.new(:settings, :jobs, :payloads, :limits, :seconds, :future)
    private_constant :KEY, :Waiting

    # That of the innermost block of this fiber, or nil. A child of fork does not take part in a block of its parent.
    def self.current
      pipeline = Thread.current[KEY]
      pipeline if pipeline && pipeline.generation == Native.generation
    end

    # Runs the block outside of the pipeline of this fiber: what it pushes is written at once.
    def self.apart
      outer = Thread.current[KEY]
      Thread.current[KEY] = nil
      yield
    ensure
      Thread.current[KEY] = outer
    end

    # Writes what the block has pushed when it ends, by return, break or throw, too; not where an exception or a kill leaves it.
    # @return [Array<PushResult>]
    def self.run
      pipeline = Thread.current[KEY] = new
      was_killed = killed?
      begin
        yield
      rescue Exception # rubocop:disable Lint/RescueException
        dropped = true
        raise
      ensure
        Thread.current[KEY] = nil
        results = pipeline.finish unless dropped || (killed? && !was_killed)
      end
      results
    end

    # Is this thread being killed? What it has to ensure may run blocks yet.
    def self.killed? = Thread.current.status == "aborting"
    private_class_method :killed?

    attr_reader :generation

    def initialize
      @generation = Native.generation
      @waiting = []
    end

    # Checks the jobs and keeps a copy of them.
    # @return [PushFuture]
    def add(worker, jobs, limits) = join(KeptJobs.of(worker, jobs, checker), limits)

    # @param kept [KeptJobs]
    # @return [PushFuture]
    def join(kept, limits)
      @waiting << Waiting.new(*kept, limits, limits.left, PushFuture.new)
      @waiting.last.future
    end

    # Writes all pushes. In a child of fork it writes nothing: the jobs are those of the parent.
    def finish
      return [] if @waiting.empty? || generation != Native.generation

      seconds = @waiting.map(&:seconds).min
      deadline = PushOutcome.monotonic + seconds
      error = Pool.current.with(seconds) { |connection| write(connection, deadline) }
      raise error if error

      @waiting.map { |waiting| waiting.future.value }
    rescue Error, Invalid => e
      @waiting.each { |waiting| waiting.future.fill(nil, e) unless waiting.future.filled? }
      raise
    end

    private

    # A connection that is never opened. It knows the rules of the core.
    def checker = @checker ||= Connection.new("redis://127.0.0.1", Seriatim.namespace)

    # @return [Error, nil] what the block raises
    def write(connection, deadline)
      left = [deadline - PushOutcome.monotonic, PushOutcome::SHORTEST].max
      outcomes, error, warning = connection.pipeline(@waiting.map { |push| [push.settings, push.jobs, push.payloads, push.limits.wait, left, push.limits.handle] })
      PushOutcome.warn_once(warning) if warning
      results = @waiting.zip(outcomes).map { |push, outcome| fill(push.future, *outcome) }
      error.is_a?(NotReplicated) ? NotReplicated.new(error.message, results) : error
    end

    def fill(future, added, folded, places, error, _, scheduled, stale, handles)
      result = PushOutcome.result(added, folded, places, scheduled, stale, handles)
      error = NotReplicated.new(error.message, result) if error.is_a?(NotReplicated)
      future.fill(result, error)
      result
    end
  end
  private_constant :Pipeline

  # Collects the pushes of the block, of any workers, and writes them together when it ends. perform_async checks its jobs and runs the client
  # middlewares as always, and returns a {PushFuture}. All jobs of a queue are sent as one push.
  #
  #   Seriatim.pipelined do
  #     OrderWorker.perform_async([{ id: 1 }])
  #     MailWorker.perform_async([{ id: 7 }])
  #   end
  #
  # An exception that leaves the block drops its pushes: nothing is written. A return, break or throw writes them, and their error is raised in
  # place of it; Timeout.timeout without a class of its own ends a block by throw in Ruby 3.1 and 3.2. A block inside of a block joins the outer one. Only this fiber takes part: pushes of other threads and fibers, and of a child of
  # fork, are written at once. Of push_timeout, wait_replicas and wait_timeout of the pushes the strictest hold for all; push_timeout counts from
  # the end of the block.
  # @return [Array<PushResult>] of the pushes, in their order; nil: this block has joined another one
  # @raise [Error] the worst that became of a queue, which the message names; each future tells the outcome of its push
  def self.pipelined(&block)
    raise ArgumentError, "pipelined needs a block" unless block
    return Pipeline.run(&block) unless Pipeline.current

    yield
    nil
  end
end
