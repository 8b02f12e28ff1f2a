# frozen_string_literal: true

module Seriatim
  # Where signals (TERM, INT, TSTP, TTIN and others) arrive: the handler writes a word to a pipe, which the main thread reads. A
  # handler may neither lock nor log.
  # @api private
  class Signals
    LETTERS = { "TERM" => "T", "INT" => "I", "TSTP" => "S", "TTIN" => "B", "CHLD" => "C", "HUP" => "H", "USR1" => "U" }.freeze
    STOPS = Signal.list.slice("TERM", "INT").freeze
    IGNORED = %w[HUP USR1].freeze # only told of in the log, where the application does not handle them
    SERVER = %w[TERM INT TSTP TTIN].freeze
    END_AT_ONCE = lambda do
      Native.tell_ending
      exit!(1)
    end

    class << self
      # @return [Boolean, nil] TERM or INT has told this process to stop; one more may end it at once
      attr_accessor :told_to_stop
    end

    # While the application is loaded nothing can be handed back yet: TERM and INT end the process with 0, the others wait for
    # {#begin}.
    def self.while_loading = new(SERVER + IGNORED, at_once: -> { exit!(0) }, allowed: 0)

    # @param names [Array<String>] of LETTERS
    # @param at_once [#call] what a TERM or INT beyond the allowed ones does, inside the handler
    # @param allowed [Integer] how many of TERM and INT are only told; the process has one count, which begins anew here
    def initialize(names, at_once: END_AT_ONCE, allowed: 1)
      @pid = Process.pid
      @reader, @writer = IO.pipe
      @previous = {}
      @noted = []
      @handlers = Hash.new { |all, name| all[name] = ->(_) { note(name) } }
      take(names, at_once, allowed)
    end

    # The end of loading, which may have set handlers of its own: takes the signals again, with another rule for TERM and INT.
    def begin(names, at_once: END_AT_ONCE) = take(names, at_once, 1)

    # Forks a child in which signals wait until {#hand_over}.
    # @return [Integer] its pid
    def fork(&work)
      @early = []
      Process.fork(&work)
    ensure
      @early = nil if Process.pid == @pid
    end

    # In that child: from now on the signals are those of own, which gets what came before.
    def hand_over(own)
      early, @early = @early, nil
      abandon
      early.each { |name| own.note(name) }
    end

    # A child that a job forked shares the pipe, but the signal was for it alone: it does what it would do without us.
    def note(name)
      return @early ? @early << name : default(name) unless Process.pid == @pid

      @at_once.call if STOPS.key?(name) && Native.ending_counts?(STOPS[name])
      Signals.told_to_stop = true if STOPS.key?(name)
      @noted |= [name]
      @writer.write_nonblock(LETTERS.fetch(name), exception: false)
    rescue IOError
      nil
    end

    # Has it come, whether or not {#wait} has given it?
    def noted?(name) = @noted.include?(name)

    # The next signal's name, or nil when none came within `seconds`.
    # @param other [IO, nil] gives :other when it becomes readable
    def wait(seconds, other = nil)
      ready, = IO.select([@reader, other].compact, nil, nil, seconds)
      return if ready.nil?
      return :other unless ready.include?(@reader)

      letter = @reader.read_nonblock(1, exception: false)
      LETTERS.key(letter)
    end

    # Gives the handlers back.
    def close
      @previous.each { |name, handler| trap(name, handler || "DEFAULT") }
      abandon
    end

    private

    def take(names, at_once, allowed)
      Native.begin_ending(allowed)
      @at_once = at_once
      names.each { |name| handle(name) }
    end

    # HUP and USR1 stay the application's, and nohup's.
    def handle(name)
      before = trap(name, @handlers[name])
      return if before.equal?(@handlers[name])
      return trap(name, before) if IGNORED.include?(name) && ![nil, "DEFAULT", "SYSTEM_DEFAULT"].include?(before)

      @previous[name] = before unless @previous.key?(name)
    end

    def abandon = [@reader, @writer].each(&:close)

    # TERM and INT end it: the handlers before ours are those of the command, which hold them back until its files are loaded.
    def default(name)
      trap(name, (@previous[name] unless STOPS.key?(name)) || "DEFAULT")
      Process.kill(name, Process.pid)
    end
  end
  private_constant :Signals
end
