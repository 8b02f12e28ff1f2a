# frozen_string_literal: true

module Seriatim
  module Rails
    # In development: the servers of this process also run the workers of files that are added while they run.
    # @api private
    class NewWorkers
      SECONDS = 1 # between two looks at the files
      private_constant :SECONDS

      # @param app [::Rails::Application] whose code is reloaded
      def initialize(app)
        @app = app
        watcher = self # the block is run by the reloader, as its own
        app.reloader.to_prepare { watcher.code_changed }
      end

      def code_changed = @changed = true

      # Looks at the files from now on, in a thread of its own. A process that was forked needs another one.
      def start
        @changed = false
        @thread = Thread.new { loop { sleep(SECONDS) && look } } unless @thread&.alive?
      end

      private

      # Rails' reloader loads changed code before the block.
      def look
        @app.reloader.wrap { serve_new if @changed }
      rescue StandardError, ScriptError => e
        Log.warn("warning", "the changed code cannot be loaded: #{Log.brief(e)}")
      end

      # Once for each change: where it raises, the next change is the next try.
      def serve_new
        @changed = false
        @app.eager_load!
        Server.running.each do |server|
          Workers.chosen.each { |worker| server.serve(worker) unless server.runs?(worker.queue_name) }
        end
      end
    end
    private_constant :NewWorkers
  end
end
