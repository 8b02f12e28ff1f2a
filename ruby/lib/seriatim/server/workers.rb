# frozen_string_literal: true

module Seriatim
  # Chooses which workers a server runs.
  # @api private
  module Workers
    class << self
      # Callables that give further workers, which a server runs beside Seriatim.workers or those that are defined.
      def sources = @sources ||= []
    end

    module_function

    # @param list [Array, #call, nil] nil: Seriatim.workers, or all that are {defined}, and those of all sources
    # @param queues [Array<String>, nil]
    def chosen(list = nil, queues = nil)
      workers = (resolve(list).map { |worker| find(worker) } + Worker.of_events).uniq
      raise UsageError, "no workers: set Seriatim.workers, or extend a module with Seriatim::Worker" if workers.empty?

      refuse_double_queues(workers)
      workers = of_queues(workers, queues) if queues
      workers.each { |worker| refuse_without_perform(worker) }
    end

    # Its jobs would fail one by one, each until its retries are used up.
    def refuse_without_perform(worker)
      return if worker.respond_to?(:perform) && worker.method(:perform).owner != Worker

      wrong = instance_perform?(worker) ? "defines perform as an instance method" : "has no public perform"
      raise ApplicationError, "workers: #{worker} #{wrong}; write `def self.perform(payloads_by_id)` in it, " \
                        "or, if this process only pushes to it, name the workers to run in Seriatim.workers"
    end

    def instance_perform?(worker) = worker.is_a?(Module) && worker.method_defined?(:perform)

    def resolve(list)
      further = list ? [] : Workers.sources.flat_map(&:call)
      list ||= Seriatim.workers if Seriatim.workers_set?
      list = list.call if list.respond_to?(:call)
      (list.nil? ? defined : Validate.list("workers", list)) + further
    end

    # Every module that extended Worker and every subclass of such, without base classes that have no perform; of those that a reload
    # replaced, only the latest.
    def defined = Worker.all.select { |worker| latest?(worker) && !base?(worker) }

    # Loads the workers that Seriatim.workers names, for those who then look among all workers.
    def load_named = resolve(nil).each { |worker| find(worker) }

    # What lies in a module without a name has a name that is no constant's.
    def latest?(worker)
      name = worker.name
      name&.match?(/\A[[:upper:]]/) && Object.const_defined?(name) && Object.const_get(name).equal?(worker)
    end

    def base?(worker) = worker.is_a?(Class) && !worker.subclasses.empty? && worker.method(:perform).owner == Worker

    # What the dashboard may call a queue otherwise.
    # @return [Array<String>] name, queue, name, queue, ... of those whose name is not that of their queue
    def renamed
      Worker.all.reject { |worker| worker.name.nil? || worker.name == worker.queue_name }.uniq.flat_map { |worker| [worker.name, worker.queue_name] }
    end

    def find(worker)
      worker = Object.const_get(worker) if worker.is_a?(String) || worker.is_a?(Symbol)
      worker.is_a?(Worker) ? worker : raise(UsageError, "workers: #{worker.inspect} does not extend Seriatim::Worker")
    rescue NameError
      raise UsageError, "workers: there is no #{worker}"
    end

    def refuse_double_queues(workers)
      name, twice = workers.group_by(&:queue_name).find { |_, list| list.size > 1 }
      raise UsageError, "workers: #{twice.join(" and ")} have the same queue_name #{name.inspect}" if name
    end

    def of_queues(workers, queues)
      unknown = queues - workers.map(&:queue_name)
      unless unknown.empty?
        raise UsageError, "unknown queue #{unknown.map(&:inspect).join(", ")}; there are #{workers.map { |w| w.queue_name.inspect }.join(", ")}"
      end

      workers.select { |worker| queues.include?(worker.queue_name) }
    end
  end
  private_constant :Workers
end
