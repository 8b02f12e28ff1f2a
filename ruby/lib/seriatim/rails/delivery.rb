# frozen_string_literal: true

require "seriatim/rails/fresh_attributes"

module Seriatim
  module Rails
    # A server middleware, outermost: runs each delivery, or each of its jobs where they are of ActiveJob, inside the application's
    # reloader, so that changed code is loaded (in development), database connections go back to their pool, and nothing is left of
    # the attributes and the query cache of an earlier one; tags the lines that the jobs write to Rails.logger; tells
    # perform.seriatim; and gives errors to Rails.error.
    # @api private
    class Reloader
      SOURCE = "job.seriatim"
      SHOWN = 100 # characters of an id in a tag
      JOB_ERROR = :seriatim_job_error # of a thread: what a job of ActiveJob has raised, which was reported there
      private_constant :SOURCE, :SHOWN, :JOB_ERROR

      # @param app [::Rails::Application]
      def initialize(app)
        @app = app
        # Rails 7.1 and later say where an error came from.
        @source = ActiveSupport.gem_version >= Gem::Version.new("7.1") ? { source: SOURCE } : {}
      end

      def call(worker, batch, &block)
        return tagged(worker, batch.ids) { rest_reported(worker, batch) { reported(worker, batch, &block) } } if worker.runs_each_job?

        reloaded { tagged(worker, batch.ids) { observed(worker, batch) { reported(worker, batch, &block) } } }
      end

      # Runs one job of those of an id.
      def around_job(worker, batch, id)
        reloaded do
          error_context(worker, batch, [id])
          yield
        end
      rescue Exception => e # rubocop:disable Lint/RescueException
        Thread.current[JOB_ERROR] = e
        raise
      end

      # Calls retries_exhausted, as a run.
      # @param rows [Array<Array>] of its ids: id, fence, retry_count and more
      def around_exhausted(worker, rows, &block)
        ids = rows.map(&:first)
        reloaded do
          errors&.set_context(**context(worker, ids, rows.first[2]))
          tagged(worker, ids, &block)
        end
      end

      private

      # In a test mode the caller goes on in this thread afterwards, with the attributes that it had.
      def reloaded(&block)
        code = -> { reporting(&block) }
        return @app.reloader.wrap(**@source, &code) unless Seriatim.const_defined?(:Testing, false) && Testing.current

        FreshAttributes.call { @app.reloader.wrap(**@source, &code) }
      end

      # Rails' reloader reports what is a StandardError, and not a missing method of an interface or a file that cannot be loaded. What
      # ends the process on purpose is no error.
      def reporting
        yield
      rescue StandardError, SystemExit, SignalException
        raise
      rescue Exception => e # rubocop:disable Lint/RescueException
        errors&.report(e, handled: false, **@source)
        raise
      end

      def reported(worker, batch, &block)
        instrumented(worker, batch, &block)
      ensure
        report_failures(worker, batch) if batch.outcomes?
      end

      # What server middlewares and subscribers raise around jobs of ActiveJob, outside of the reloader.
      def rest_reported(worker, batch)
        yield
      rescue SystemExit, SignalException
        raise
      rescue Exception => e # rubocop:disable Lint/RescueException
        report_rest(worker, batch, e) unless e.equal?(Thread.current[JOB_ERROR])
        raise
      ensure
        Thread.current[JOB_ERROR] = nil
      end

      # Passes the context with the error: outside of the reloader nothing clears one that is set.
      def report_rest(worker, batch, error)
        ids = undecided(batch)
        report(worker, batch, ids.empty? ? batch.ids : ids, error)
      end

      # What leaves it is reported with the context that is set then.
      def observed(worker, batch)
        error_context(worker, batch, batch.ids)
        yield
      rescue Exception # rubocop:disable Lint/RescueException
        error_context(worker, batch, undecided(batch))
        raise
      end

      def instrumented(worker, batch, &block)
        payload = { worker: worker, queue: worker.queue_name, shard: batch.shard, ids: batch.ids, payloads_count: batch.payloads_by_id.sum { |_, list| list.size } }
        Notifications.instrument("perform", payload, &block)
      end

      # ---- Rails.error, of Rails 7.0 and later

      def errors = (::Rails.error if ::Rails.respond_to?(:error))

      def error_context(worker, batch, ids)
        errors&.set_context(**context(worker, ids, batch.retry_count(ids.first))) unless ids.empty?
      end

      def report(worker, batch, ids, error)
        errors&.report(error, handled: false, context: context(worker, ids, batch.retry_count(ids.first)), **@source)
      end

      # The ids of which the run has not said what became of them.
      def undecided(batch) = batch.ids.reject { |id| batch.outcome(id) }

      # id and retry_count are those of the first.
      def context(worker, ids, retry_count) = { queue: worker.queue_name, id: ids.first, ids: ids, retry_count: retry_count }

      # Errors that jobs gave to batch.fail, which nobody raises.
      def report_failures(worker, batch)
        batch.ids.each do |id|
          error = batch.outcome(id)
          report(worker, batch, [id], error) if error.is_a?(Exception)
        end
      end

      # ---- tags

      # Not `tagged`, which calls its block once for each Logger of a broadcast in Rails 7.1.
      def tagged(worker, ids)
        logger = ::Rails.logger
        return yield unless logger.respond_to?(:push_tags)

        tags = tags(worker, ids)
        logger.push_tags(*tags)
        begin
          yield
        ensure
          logger.pop_tags(tags.size)
        end
      end

      def tags(worker, ids)
        id = Log.one_line(ids.first)[0, SHOWN]
        [worker.name || worker.queue_name, ids.size > 1 ? "#{id} and #{ids.size - 1} more" : id].reject(&:blank?)
      end
    end
  end
end
