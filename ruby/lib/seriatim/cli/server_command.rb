# frozen_string_literal: true

require "seriatim/cli/loads_application"
require "seriatim/server/signals"
require "seriatim/server/supervisor"

module Seriatim
  class CLI
    # Loads the application and runs the server until TERM or INT.
    # @api private
    class ServerCommand
      include LoadsApplication

      THREADS = (1..10_000) # per process
      private_constant :THREADS

      # @param held [Array<String>] TERM and INT that came before this; their handlers add to it until there are others
      def initialize(options, held)
        @options = options
        @held = held
      end

      # @return [Integer] the exit code
      def run
        prepare
        signals = Signals.while_loading
        return STOPPED if @held.any?

        load_application
        apply
        Workers.chosen(nil, @options[:queues])
        PrivateRedis.url if RedisUrl.none?
        processes > 1 ? supervise(signals) : serve(signals)
      end

      private

      def supervise(signals) = Supervisor.new(processes, Seriatim.stop_timeout, signals) { |parent, own| serve(own, parent) }.run

      def apply
        Seriatim.threads_per_node = threads if threads
        Seriatim.stop_timeout = @options[:timeout] if @options[:timeout]
      end

      def threads
        given = ENV.fetch("RAILS_MAX_THREADS", "")
        @options[:threads] || (max_threads(given) unless given.empty? || Seriatim.threads_set?)
      end

      # As strict as -c, and by the variable's name, which is what has to be corrected.
      def max_threads(given)
        count = Integer(given, 10, exception: false)
        THREADS.cover?(count) ? count : Validate.refuse("RAILS_MAX_THREADS", "an integer from #{THREADS.min} to #{THREADS.max}", given)
      end

      def processes = Validate.integer("-p", @options.fetch(:processes, 1), 1..1000)

      # One server process. Below a supervisor a second TERM is ignored: a service manager sends one to every process, and the
      # supervisor hands its own on. At its own second one the supervisor kills.
      # @param signals [Signals] those of the time of loading, which ends when the server is about to claim
      # @param parent [IO, nil] becomes readable when the supervisor is gone
      # @return [Integer] the exit code
      def serve(signals, parent = nil)
        server = Server.new(queues: @options[:queues])
        server.start do
          parent ? signals.begin(Signals::SERVER, at_once: -> {}) : signals.begin(Signals::SERVER)
          server.runner.quiet if signals.noted?("TSTP") # before the first claim; the log tells of it when the server runs
        end
        watch(server, signals, parent)
        stop(server, signals)
      rescue UsageError, Invalid => e
        final(e, USAGE)
      rescue SystemExit, SignalException => e
        return stop(server, signals) if server&.runner

        e.is_a?(SystemExit) ? e.status : STOPPED
      rescue Exception => e # rubocop:disable Lint/RescueException
        last_words(e)
        final(e, Failure.no_redis?(e) ? NO_REDIS : CRASHED)
      end

      # Until the server is to stop.
      def watch(server, signals, parent)
        loop do
          case signal = signals.wait(1, parent)
          when "TERM", "INT", :other then return
          when "TSTP" then server.quiet
          when "TTIN" then dump_threads
          when "HUP", "USR1" then Log.info("signal", "#{signal} is ignored")
          end
          raise server.failure if server.failure
          return if server.stopping? # the dashboard asked for it
        end
      end

      # Signals are heard while it stops: TTIN shows what it waits for, a second TERM or INT ends it at once.
      def stop(server, signals)
        clean = false
        stopper = Thread.new { clean = server.stop(Seriatim.stop_timeout) }
        dump_threads if signals.wait(0.05) == "TTIN" while stopper.alive?
        stopper.value
        $stdout.flush
        clean ? STOPPED : exit!(STOPPED) # what still runs would hold the exit up
      end

      def dump_threads
        Thread.list.each do |thread|
          Log.info("thread", "#{thread.name || thread.inspect} #{thread.status}: #{(thread.backtrace || []).join(" | ")}")
        end
      end

      def last_words(error)
        Seriatim.last_words&.call(error)
      rescue Exception => e # rubocop:disable Lint/RescueException
        Log.error("hook", "last_words raised #{Log.describe(e)}")
      end

      def final(error, code)
        Log.write(Logger::FATAL, "exit", code == USAGE ? error.message : Log.describe(error))
        silent = code == NO_REDIS && !error.is_a?(AuthError) # Redis does not answer
        warn "seriatim: #{Log.one_line("#{"no Redis: " if silent}#{error.message}")}" unless code == CRASHED
        warn Log.printable_lines(error.full_message(highlight: false)) if code == CRASHED
        code
      end
    end
    private_constant :ServerCommand
  end
end
