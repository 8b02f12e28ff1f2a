# frozen_string_literal: true

require "json"
require "seriatim/import/lowkiq"

module Seriatim
  class CLI
    # Moves the jobs of a queue of Lowkiq into one of Seriatim.
    # @api private
    class ImportCommand
      SHOWN_SECONDS = 5 # between two lines of progress on stderr
      RETRY_SECONDS = 1 # with --watch, after Redis could not be reached

      # @param worker [Worker] of the queue, which exists
      # @param queue [String] its name in Lowkiq
      # @param application [Worker, nil] the application's worker of the queue
      # @param options [Hash] from, watch, json
      def initialize(worker, queue, application, options)
        @worker = worker
        @queue = queue
        @application = application
        @options = options
      end

      # @return [Integer] the exit code
      def run
        @importer = Import::Lowkiq.new(source, @worker, convert: converter, progress: method(:show))
        stop_at_signals if @options[:watch]
        @importer.run
        watch if @options[:watch]
        report
        @source.refused.zero? ? STOPPED : CRASHED
      end

      private

      def source = @source = Import::LowkiqQueue.new(Import::Redis.new(@options.fetch(:from) { Seriatim.redis_url }), @queue, below)

      # What the application's Lowkiq has put in front of its keys. The worker's queue was looked at, so the URL has been taken.
      def below = (::Lowkiq.below if defined?(::Lowkiq))

      def stop_at_signals = %w[TERM INT].each { |name| trap(name) { @importer.stop } }

      # A Redis that is away, or loads its data, is waited for: whatever was under way is found again.
      def watch
        @importer.watch
      rescue ConnectionError, NotReady => e
        Log.warn("import", e.message)
        sleep(RETRY_SECONDS)
        reconnect
        retry
      end

      def reconnect
        @importer.queue = source
      rescue ConnectionError, NotReady
        nil # the next step fails again
      end

      # Payloads that the worker reads in the format that Lowkiq stored stay as they are.
      # @return [#call, nil]
      def converter
        codec = @application&.payload_codec
        return if codec.nil? || codec.equal?(lowkiq_codec) || @application.codec == :raw || (defined?(::Lowkiq) && @application.is_a?(::Lowkiq::Worker) && @application.codec.nil?)

        ->(bytes) { codec.dump(lowkiq_codec.load(bytes), "payload") }
      end

      # What Lowkiq stored: Marshal, or what the application says to Lowkiq.
      def lowkiq_codec = Codec.of(defined?(::Lowkiq) ? ::Lowkiq.codec : :marshal)

      def show(importer)
        now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        @shown ||= now
        return if now - @shown < SHOWN_SECONDS

        @shown = now
        warn "seriatim: import: #{words(importer.counts)}"
      end

      def report
        counts = @importer.counts
        return puts(JSON.generate(queue: Log.utf8(@queue), **counts, reasons: @importer.reasons)) if @options[:json]

        puts "imported #{words(counts)}"
        @importer.reasons.each { |reason| puts Log.printable("refused: #{reason}") }
        refused = @source.refused
        puts "#{refused} records are kept in #{Log.printable(@source.prefix)}:seriatim:refused" if refused.positive?
      end

      def words(counts) = counts.map { |name, count| "#{name.name.tr("_", " ")} #{count}" }.join(", ")
    end
    private_constant :ImportCommand
  end
end
