# frozen_string_literal: true

module Seriatim
  # Chains of callables (worker, subject, &block).
  # @api private
  module Middlewares
    module_function

    # Calls the list around the block, the first outermost. The list is read now, so later additions count.
    # @return what the outermost returned
    def call(list, worker, subject, &core)
      list.empty? ? core.call : step(list.dup, 0, worker, subject, core)
    end

    def step(list, at, worker, subject, core)
      return core.call if at == list.size

      list[at].call(worker, subject) { step(list, at + 1, worker, subject, core) }
    end
  end
  private_constant :Middlewares
end
