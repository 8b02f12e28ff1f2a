# frozen_string_literal: true

require "active_job"
require "active_job/arguments"
require "json"
require "seriatim/rails/fresh_attributes"

module Seriatim
  # Carries attributes of ActiveSupport::CurrentAttributes, and I18n.locale, from a push to the run of its jobs, in their context:
  #
  #   Seriatim::CurrentAttributes.persist("Current")   # config/initializers/current.rb
  #
  # Attributes may hold what an argument of ActiveJob may, models for one. A run whose payloads came with different attributes has
  # none of them; {.with} sets those of one payload. What a run sets itself is gone after it.
  module CurrentAttributes
    LOCALE = "locale"
    private_constant :LOCALE

    class << self
      # Applies to all later pushes and runs of this process.
      # @param names [Array<String>] of classes, which may be reloaded
      def persist(*names)
        first = !@names
        @names = names.each_with_index.map { |name, at| Validate.text("names[#{at}]", name.to_s, 1..255) }
        return unless first

        Seriatim.client_middlewares << method(:save)
        Seriatim.server_middlewares << method(:load)
      end

      # @api private
      # @return [Boolean] was {.persist} called?
      def persists? = !@names.nil?

      # Calls the block with the attributes and the locale of a payload's context. The classes have no other attributes in it, and
      # after it those that they had before.
      # @param context [Hash{String => String}] an element of batch.contexts(id)
      # @return what the block returned
      # @raise [ActiveJob::DeserializationError] before the block is called: a model is gone
      def with(context, &block)
        classes = (@names || []).map { |name| Object.const_get(name) }
        FreshAttributes.call(classes) do
          attributes = (@names || []).filter_map { |name| [name, deserialized(context[name])] if context[name] }
          inner = attributes.reduce(block) { |code, (name, values)| -> { set(Object.const_get(name), values, &code) } }
          context[LOCALE] ? ::I18n.with_locale(context[LOCALE], &inner) : inner.call
        end
      end

      private

      # A client middleware. What a job's own context says wins.
      def save(_worker, jobs)
        context = current
        jobs.each { |job| job[:context] = context.merge((job[:context] || {}).transform_keys(&:to_s)) }
        yield
      end

      # A server middleware. Jobs of ActiveJob have each its own.
      def load(worker, batch, &block)
        return yield if worker.runs_each_job?

        contexts = batch.ids.flat_map { |id| batch.contexts(id) }.map { |context| context.slice(LOCALE, *@names) }.uniq
        with(contexts.size == 1 ? contexts.first : {}, &block)
      end

      # @return [Hash{String => String}]
      def current
        attributes = @names.to_h { |name| [name, Object.const_get(name).attributes.compact] }.reject { |_, values| values.empty? }
        { LOCALE => ::I18n.locale.to_s, **attributes.transform_values { |values| serialized(values) } }
      end

      # Another version of the application, whose class has further attributes, may have pushed.
      def set(owner, values, &block) = owner.set(values.select { |name, _| owner.public_method_defined?(:"#{name}=") }, &block)

      def serialized(values) = JSON.generate(::ActiveJob::Arguments.serialize([values]))
      def deserialized(text) = ::ActiveJob::Arguments.deserialize(JSON.parse(text)).first
    end
  end
end
