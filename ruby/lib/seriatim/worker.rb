# frozen_string_literal: true

require "monitor"

module Seriatim
  # Extend a module with it and give it `perform`:
  #
  #   module OrderWorker
  #     extend Seriatim::Worker
  #     self.shards_count = 24
  #     self.batch_size = 10
  #
  #     def self.perform(payloads_by_id) # or perform(payloads_by_id, batch)
  #       payloads_by_id.each { |id, payloads| ... }
  #     end
  #   end
  #
  # Settings are attributes, checked when they are set. The core defines them (docs/guides/configuration.md lists them) but for +codec+, which is
  # nil (Seriatim.dump_payload and load_payload), :json, :raw, :marshal or [dump, load].
  #
  # A class may be a worker, too. Its subclasses are workers of their own, with its settings but for queue_name.
  module Worker
    SETTINGS = Native.worker_settings
    DEFAULTS = { **SETTINGS.to_h { |setting| [setting[:name], setting[:default]] }, codec: nil }.freeze
    # Each is called with the value and with how messages name the setting, and returns the value in its final form.
    CHECKS = { **SETTINGS.to_h { |setting| [setting[:name], ->(value, field) { Validate.setting(field, value, setting) }] },
               codec: ->(value, field) { Codec.check(value, field) } }.freeze
    private_constant :SETTINGS, :DEFAULTS, :CHECKS

    # All modules that were extended and subclasses of such, in that order: process-wide state.
    # @api private
    def self.all = @all ||= []

    # The workers of the types of events that have a handler in this process: every server of it runs them. Process-wide state.
    # @api private
    def self.of_events = @of_events ||= []

    # For those who change of_events, and who give its workers to a server: it would get a worker twice.
    @events_lock = Monitor.new

    # @api private
    def self.with_events(&block) = @events_lock.synchronize(&block)

    # The latest one with this queue, or nil.
    # @api private
    def self.named(queue) = all.reverse_each.find { |worker| worker.serves?(queue) }

    # What extends is a worker: of this module, and of one that includes it and extends Registry, too.
    # @api private
    module Registry
      # @raise [Invalid] what extends is neither a class nor a module
      def extended(worker)
        super
        raise Invalid, "#{Validate.describe(worker)} extends #{self}; only a class or a module can" unless worker.is_a?(Module)

        Worker.all << worker
      end

      # A class that includes it has none of its methods, which are for the class itself. In `class << self` it is an extend.
      # @raise [Invalid]
      def included(base)
        super
        return unless base.is_a?(Class)
        return extended(attached_object(base)) if base.singleton_class?

        raise Invalid, "#{base} includes #{self}; write `extend #{self}` and `def self.perform(payloads_by_id)` in it"
      end

      private

      # As the method of Ruby 3.2.
      def attached_object(singleton) = ObjectSpace.each_object(singleton).find { |object| object.singleton_class.equal?(singleton) }
    end
    extend Registry

    # A subclass of a worker is one.
    # @api private
    def inherited(worker)
      super
      Worker.all << worker
    end

    DEFAULTS.each_key do |field|
      define_method(field) { own_settings.fetch(field) { inherited_setting(field) } }
      define_method(:"#{field}=") do |value|
        own_settings[field] = CHECKS.fetch(field).call(value, name ? "#{name}.#{field}" : field.name)
        forget_settings
      end
    end

    # Runs the jobs. Whatever it raises fails all ids that it did not report one by one through batch.
    # @param payloads_by_id [Hash{String => Array}] each id's payloads, by score, then by arrival
    # @param batch [Batch] optional second parameter: outcome of single ids, fence, scores, contexts
    def perform(_payloads_by_id, _batch = nil)
      raise NotImplementedError, "#{name || self} must define perform"
    end

    # Seconds until the next run after the (count + 1)-th failure in a row: count^4 + 15 + rand(30) * (count + 1).
    # @param count [Integer] the new retry_count, from 0
    def retry_in(count) = Native.back_off(count).to_i

    # Called for jobs whose retries are used up, for payloads that the codec could not read (as their bytes), and for ids
    # that kill or kill_all_failed_jobs has buried; at most 100 a call. Called at least once: again, in another process,
    # if this one dies before the call has returned or raised.
    # @param jobs [Array<Hash>] {id:, payloads: [[payload, score]], payloads_count:, error:}; payloads are the first
    #   ones, up to some 256 KiB, of payloads_count
    def retries_exhausted(jobs); end

    # Pushes jobs. May be overridden, and call super; an override that takes no keywords goes by the settings.
    # @param jobs [Array<Hash>] id (String, Symbol or Integer; the only mandatory key), payload (what JSON can say;
    #   ""), score (orders the payloads of an id; arrival order), perform_in or perform_at (Time or Unix seconds) or
    #   delay (seconds from now), deliver_at (as perform_in) or deliver_in (as delay): the payload is not there before then, joins and
    #   blocks nothing, and arrives then as a push does; on_waiting, context (Hash of Strings), retry_count (for tests and
    #   migration). Keys may be Strings.
    # @param wait_replicas [Integer] how many replicas must have it; Seriatim.wait_replicas
    # @param wait_timeout [Numeric] seconds they may take; Seriatim.wait_timeout
    # @param push_timeout [Numeric] seconds that all of it may take; Seriatim.push_timeout
    # @param handle [Boolean] answer a handle for each job; a push with deliver_at or deliver_in always does
    # @return [PushResult, PushFuture] inside of {Seriatim.pipelined} a PushFuture
    # @raise [Invalid] before anything is written, naming the job and the field
    # @raise [NotReplicated] when it is written, and too few replicas have it
    # @raise [Error] when Redis cannot be reached or refuses
    def perform_async(jobs, wait_replicas: nil, wait_timeout: nil, push_timeout: nil, handle: false)
      Push.call(self, jobs, wait_replicas: wait_replicas, wait_timeout: wait_timeout, push_timeout: push_timeout, handle: handle)
    end

    # Pushes jobs once the open transactions of ActiveRecord are committed, as {Seriatim.after_commit}; a rollback pushes nothing. The
    # jobs are checked, pass the client middlewares and are copied now: later changes of what was given are not pushed. Times from
    # now (delay, deliver_in) count from the push.
    # @return [PushResult, nil] nil: they wait for a commit
    # @raise [Invalid] as perform_async
    def perform_async_after_commit(jobs, **options) = Push.after_commit(self) { perform_async(jobs, **options) }

    # Writes jobs into the outbox of the application's database, in the transaction that is open: see {Outbox.push}.
    # @return [Integer] how many were written
    # @raise [Invalid] no transaction is open, ActiveRecord is connected to another shard, or a job is wrong; then nothing was written
    def perform_async_in_transaction(jobs) = Outbox.push(self, jobs)

    # @return [Queries] what is in the queue
    def queries = Queries.new(self)

    # @return [Actions] what an operator does to it
    def actions = Actions.new(self)

    # @return [Hash] length, fresh, retries, morgue_length, lag (seconds), processed, failed, busy, and
    #   shards: the same for each
    def metrics = Metrics.of(self)

    # @return [Queue]
    def queue = Queue.new(self)

    alias client_queries queries
    alias client_actions actions
    alias client_queue queue

    # The settings as the core takes them, by name; the same object until one changes.
    # @api private
    def queue_settings
      @queue_settings ||= { **SETTINGS.to_h { |setting| [setting[:name], public_send(setting[:name])] },
                            exhausted_hook: exhausted_hook?, assumed: assumed? }.freeze
    end

    # Does the worker define retries_exhausted? Then what it is to be told of is kept in Redis until it has returned.
    # @api private
    def exhausted_hook? = method(:retries_exhausted).owner != Worker

    # Did the program choose none of the settings? Then no push warns that Redis has others.
    # @api private
    def assumed? = false

    # @api private
    def payload_codec
      @payload_codec ||= Codec.of(codec) || :module_wide
      @payload_codec == :module_wide ? Codec.module_wide : @payload_codec
    end

    # Is this the name of its queue?
    # @api private
    def serves?(queue) = !(name || own_settings[:queue_name]).nil? && queue_name == queue

    # Does perform take the batch, too?
    # @api private
    def takes_batch?
      @takes_batch = Worker.takes_batch?(method(:perform)) if @takes_batch.nil?
      @takes_batch
    end

    # Does perform run each payload as a job of its own, with what Rails does around a job? Then nothing of it is around the whole run.
    # @api private
    def runs_each_job? = false

    # @api private
    def singleton_method_added(name)
      super
      forget_settings if %i[perform retries_exhausted].include?(name)
    end

    # Makes what follows from settings and methods anew at its next use, also in subclasses, which inherit them.
    # @api private
    def forget_settings
      @queue_settings = @payload_codec = @takes_batch = nil
      subclasses.each(&:forget_settings) if is_a?(Class)
    end

    # A method that takes any number of arguments passes them to the one it wraps, if there is one.
    # @api private
    def self.takes_batch?(method)
      kinds = method.parameters.map(&:first)
      return kinds.count { |kind| %i[req opt].include?(kind) } > 1 unless kinds.include?(:rest)

      wrapped = method.super_method
      wrapped.nil? || wrapped.owner == Worker || takes_batch?(wrapped)
    end

    private

    def own_settings = @own_settings ||= {}

    # Of the superclass, where a class is the worker; else the default.
    def inherited_setting(field)
      parent = superclass if respond_to?(:superclass)
      return parent.public_send(field) if parent.is_a?(Worker) && field != :queue_name
      return DEFAULTS.fetch(field) unless field == :queue_name

      name or raise Invalid, "queue_name must be set for a worker without a name"
    end
  end
end
