# frozen_string_literal: true

module Seriatim
  module ActiveJob
    # What job classes get: which id a job belongs to.
    module Ordering
      # Jobs of a queue with the same value run one after another, in the order in which they were enqueued. Inherited.
      #
      #   ordered_by :order                            # an argument of perform, by its name
      #   ordered_by { |order, **| order.customer_id }   # or a block, called with the arguments
      #
      # The value is a String, a Symbol, an Integer or a model: of a model "Order/5". Without ordered_by each job is an id of its own.
      # @param argument [Symbol, String, nil]
      def ordered_by(argument = nil, &block)
        raise ArgumentError, "ordered_by takes the name of an argument, or a block" unless argument.nil? ^ block.nil?

        @seriatim_order = block || argument.to_sym
      end

      # @api private
      def seriatim_order = @seriatim_order || (superclass.respond_to?(:seriatim_order) ? superclass.seriatim_order : nil)

      module_function

      # @api private
      # @param job [::ActiveJob::Base]
      # @return [String] the id
      def id_of(job)
        order = job.class.seriatim_order
        order ? text(job.class, value_of(job, order)) : job.job_id
      end

      def value_of(job, order)
        return order.call(*job.arguments) if order.is_a?(Proc)

        keywords = job.arguments.last
        return keywords[order] if keywords.is_a?(Hash) && keywords.key?(order)

        place = job.method(:perform).parameters.index { |kind, name| name == order && %i[req opt].include?(kind) }
        place && place < job.arguments.size ? job.arguments[place] : raise(Invalid, "#{job.class}: ordered_by names #{order}, which this job has no argument for")
      end

      def text(job_class, value)
        case value
        when String, Symbol, Integer then value.to_s
        when GlobalID::Identification then value.to_global_id.then { |gid| "#{gid.model_name}/#{gid.model_id}" }
        else Validate.refuse("#{job_class}.ordered_by", "a String, a Symbol, an Integer or a model", value)
        end
      end
      private_class_method :value_of, :text
    end
  end
end
