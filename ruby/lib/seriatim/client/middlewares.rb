# frozen_string_literal: true

module Seriatim
  # Chains of callables (worker, subject, &block).
  # @api private
  module Middlewares
    module_function

    # Calls the list around the block, the first outermost. The list is read now, so later additions count.
    # @param field [String] the setting that holds the list, for errors
    # @return what the outermost returned
    # @raise [Invalid] one of them cannot be called; then none was
    def call(field, list, worker, subject, &core)
      list.empty? ? core.call : step(Validate.callables(field, list.dup), 0, worker, subject, core)
    end

    def step(list, at, worker, subject, core)
      return core.call if at == list.size

      list[at].call(worker, subject) { step(list, at + 1, worker, subject, core) }
    end
  end
  private_constant :Middlewares
end
