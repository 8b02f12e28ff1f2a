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

        parameters = job.method(:perform).parameters
        place, count = place_of(parameters, order, positional_count(job.arguments, parameters))
        return job.arguments[place] if place&.between?(0, count - 1)

        keywords = place ? nil : job.arguments.last
        return keywords[order] if keywords.is_a?(Hash) && keywords.key?(order)

        raise Invalid, "#{job.class}: ordered_by names #{order}, which this job has no argument for"
      end

      # How many of the arguments perform gets as positional ones?
      def positional_count(arguments, parameters)
        keywords = arguments.last
        takes_keywords = parameters.any? { |kind, _name| %i[key keyreq keyrest].include?(kind) }
        arguments.size - (takes_keywords && keywords.is_a?(Hash) && Hash.ruby2_keywords_hash?(keywords) ? 1 : 0)
      end

      # Where the positional argument of a name lies among `count` of them, and how many can be there; nil if perform has no such name.
      # Ruby gives values to the required ones first: those behind an optional one or a splat get the last ones.
      def place_of(parameters, name, count)
        positional = parameters.select { |kind, _name| %i[req opt rest].include?(kind) }
        place = positional.index { |kind, its_name| its_name == name && kind != :rest }
        return unless place

        behind = positional.drop(place + 1).count { |kind, _name| kind == :req }
        return [place, count - behind] if positional[place].first == :opt

        [positional.first(place).all? { |kind, _name| kind == :req } ? place : count - 1 - behind, count]
      end

      def text(job_class, value)
        case value
        when String, Symbol, Integer then value.to_s
        when GlobalID::Identification then value.to_global_id.then { |gid| "#{gid.model_name}/#{gid.model_id}" }
        else Validate.refuse("#{job_class}.ordered_by", "a String, a Symbol, an Integer or a model", value)
        end
      end
      private_class_method :value_of, :positional_count, :place_of, :text
    end
  end
end
