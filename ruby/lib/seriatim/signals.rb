# frozen_string_literal: true

module Seriatim
  # Signals as words that the main thread reads from a pipe: handlers may neither lock nor log.
  # @api private
  class Signals
    LETTERS = { "TERM" => "T", "INT" => "I", "TSTP" => "S", "TTIN" => "B", "CHLD" => "C" }.freeze
    STOPS = %w[TERM INT].freeze

    # @param names [Array<String>] of LETTERS
    # @param at_once [#call] what the second TERM or INT does, inside the handler
    def initialize(names, at_once: -> { exit!(1) })
      @pid = Process.pid
      @reader, @writer = IO.pipe
      @stops = 0
      @at_once = at_once
      @previous = names.to_h { |name| [name, trap(name) { note(name) }] }
    end

    # The next signal's name, or nil after so many seconds.
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
      [@reader, @writer].each(&:close)
    end

    private

    # A child that a job forked shares the pipe, but the signal was for it alone: it does what it would do without us.
    def note(name)
      return default(name) unless Process.pid == @pid

      if STOPS.include?(name)
        @stops += 1
        @at_once.call if @stops > 1
      end
      @writer.write_nonblock(LETTERS.fetch(name), exception: false)
    rescue IOError
      nil
    end

    def default(name)
      trap(name, @previous[name] || "DEFAULT")
      Process.kill(name, Process.pid)
    end
  end
  private_constant :Signals
end
