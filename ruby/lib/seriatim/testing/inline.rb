# frozen_string_literal: true

require "seriatim/testing/memory"

module Seriatim
  module Testing
    # Stands in for a pool and its connections: each push runs at once, in the thread that pushes.
    # @api private
    class Inline < Memory
      FOREVER = 8_000_000_000_000_000 # all times are over
      LATER = FOREVER + 1 # what is put off until then, by 0 seconds or more, is not taken
      private_constant :FOREVER, :LATER

      # Jobs of one id in the same push fold, as they do in a queue. An id runs once for each push.
      def push(settings, jobs, *rest)
        memory = Memory.new
        result = memory.push(settings, jobs, *rest)
        @pushed.concat(memory.pushed)
        worker = Worker.named(settings[:queue_name])
        while worker && runs?(worker) && (taken = memory.take(worker, FOREVER))
          Trial.new(memory, worker, LATER).run(*taken, true)
        end
        result
      end
    end
  end
end
