# frozen_string_literal: true

module Seriatim
  # Delayed events: each type of event is a queue NAME:TYPE, whose handler ends an event by returning true.
  #
  #   events = Seriatim.events("billing")
  #   events.on("InvoiceDue", max_running: 5) { |event, context| Invoices.remind(event.fetch("invoice")) }
  #   events.enqueue("InvoiceDue", id: "i-1", event: { invoice: 1 }, delay: 86_400)
  #
  # Every server of the process runs the handlers, beside the workers that it was given. All methods may be called by any thread.
  class Events
    ATTEMPTS = 70
    MAX_RUNNING = 10

    # What makes a worker of a type's queue run its handler.
    # @api private
    module Handling
      # @param handler [#call] (event, context) -> true
      # @param back_off [#call] retry_count -> seconds
      def handle_with(handler, back_off)
        @handler = handler
        @back_off = back_off
        forget_settings
      end

      # Until the type is handled for the first time.
      def assumed? = @handler.nil?

      def perform(payloads_by_id, batch)
        payloads_by_id.each { |id, payloads| run(id, payloads, batch) }
      end

      def retry_in(count) = @back_off.call(count)

      def handled? = Events.registered?(self)

      def inspect = "#<Seriatim::Events #{queue_name}>"
      alias to_s inspect

      private

      # What is done of several events of an id stays done when a later one fails.
      def run(id, payloads, batch)
        contexts = batch.contexts(id)
        payloads.each_with_index do |event, place|
          result = @handler.call(event, contexts[place])
          return batch.fail(id, "the handler returned #{Validate.describe(result)}, not true") unless true.equal?(result)

          batch.checkpoint(id, place + 1) if place + 1 < payloads.size
        end
      end
    end
    private_constant :Handling

    # Process-wide state: the objects by name.
    @named = {}
    @lock = Mutex.new

    class << self
      # @api private
      # @return [Events] the same object for each call with this name
      def named(name)
        text = Validate.text("name", name, 1..500)
        raise Invalid, "name must not contain \":\", which separates it from the type, but is #{text.inspect}" if text.include?(":")

        @lock.synchronize { @named[text] ||= new(text) }
      end

      # @api private
      def registered?(worker) = Worker.of_events.include?(worker)

      # Servers that run serve it from now on; if one of them cannot, none does.
      # @api private
      def register(worker)
        Worker.of_events << worker
        Server.running.each { |server| server.serve(worker) }
        served = true
      ensure
        unregister(worker) unless served # also where Timeout or Thread#kill ends the call, which raise nothing
      end

      # @api private
      def unregister(worker)
        Worker.of_events.delete(worker)
        Server.running.each { |server| server.withdraw(worker) }
      end
    end
    private_class_method :new

    # @return [String]
    attr_reader :name

    def initialize(name)
      @name = name
      @types = {}
      @types_lock = Mutex.new # its own: an enqueue must not wait while an `on` asks Redis
    end

    # Handles the events of a type in this process. A server that runs serves it from then on; it asks Redis for the queue first.
    # @param type [String, Symbol]
    # @param max_running [Integer] how many events of the type this process handles at once, 1 to 100; 10
    # @param attempts [Integer] after how many runs an event that always fails goes to the morgue, 1 to 100; 70
    # @param retry_in [:delayed_queue, #call, Array<Numeric>] seconds until the next run: the table of the library delayedQueue, a
    #   callable that gets how many retries there were (from 0), or a list, whose last element goes for all later ones
    # @param fold [:last, :first, :merge, :list] which events of one id are kept while it waits
    # @yield [event, context] what enqueue was given. Only true ends the event; anything else and what it raises are failures
    # @return [self]
    # @raise [Invalid] the type has a handler already, or an argument is invalid
    # @raise [Error] a server runs, and Redis cannot be reached or refuses
    def on(type, max_running: MAX_RUNNING, attempts: ATTEMPTS, retry_in: :delayed_queue, fold: :last, &handler)
      raise Invalid, "on must be given a block" unless handler

      settings = { max_running: Validate.integer("max_running", max_running, 1..100), fold: fold,
                   max_retry_count: Validate.integer("attempts", attempts, 1..100) - 1 }
      back_off = back_off_of(retry_in)
      Worker.with_events do
        worker = worker(type)
        raise Invalid, "#{worker.queue_name.inspect} has a handler already" if Events.registered?(worker)

        settings.each { |field, value| worker.public_send(:"#{field}=", value) }
        worker.handle_with(handler, back_off)
        Events.register(worker)
      end
      self
    end

    # Handles the events of the type no more: servers of this process claim none, let those that run finish, and hand the queue
    # over to the servers of other processes that handle the type. What is enqueued stays.
    # @return [Boolean] false: the type has no handler
    def off(type)
      Worker.with_events do
        worker = worker(type)
        Events.registered?(worker) ? Events.unregister(worker) && true : false
      end
    end

    # Enqueues an event. If an event of this type and id waits already, its time stays, and the queue's fold decides which event is kept.
    # @param id [String, Symbol, Integer]
    # @param event what JSON can say, but nil
    # @param delay [Numeric] seconds from now
    # @param context [Hash{String => String}, nil] given to the handler with the event
    # @return [PushResult]
    # @raise [Invalid] before anything is written
    # @raise [Error] when Redis cannot be reached or refuses
    def enqueue(type, id:, event:, delay: 0, context: nil)
      { id: id, event: event, delay: delay }.each { |field, value| raise Invalid, "#{field} must not be nil" if value.nil? }
      job = { id: id, payload: event, delay: delay, on_waiting: :keep }
      job[:context] = context if context
      worker(type).perform_async([job])
    end

    # @return [Module] the worker of the type's queue, for its queries, actions and metrics
    def worker(type)
      text = Validate.text("type", type, 1..500)
      @types_lock.synchronize { @types[text] ||= new_worker("#{name}:#{text}") }
    end

    def inspect = "#<Seriatim::Events #{name}>"

    private

    def new_worker(queue_name)
      worker = Module.new.extend(Worker).extend(Handling)
      worker.queue_name = queue_name
      worker.fold = :last
      worker.max_running = MAX_RUNNING
      worker.max_retry_count = ATTEMPTS - 1
      worker
    end

    def back_off_of(retry_in)
      return Native.method(:back_off_of_events) if %w[delayed_queue].include?(retry_in.to_s)
      return retry_in if retry_in.respond_to?(:call)
      unless retry_in.is_a?(Array) && !retry_in.empty?
        Validate.refuse("retry_in", ":delayed_queue, callable, or a list of seconds", retry_in)
      end

      list = retry_in.each_with_index.map { |seconds, place| Validate.delay("retry_in[#{place}]", seconds) }.freeze
      ->(count) { list.fetch(count, list.last) }
    end
  end

  # The module's own constructor.
  # @api private
  module EventsBuilder
    # @param name [String, Symbol] what the names of the queues begin with; without ":"
    # @return [Events]
    def events(name) = Events.named(name)
  end
  private_constant :EventsBuilder
end
