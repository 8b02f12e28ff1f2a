# frozen_string_literal: true

require "json"
require "logger"
require "time"

module Seriatim
  # One line an event: `LEVEL 2026-11-20T12:00:00.000Z pid= tid= q= id= n= elapsed= msg`, or the same as JSON. With a
  # Logger of the application's own the fields are written behind the message, in that Logger's format.
  module Log
    FIELDS = %i[q id n elapsed].freeze
    LEVELS = { "DEBUG" => Logger::DEBUG, "INFO" => Logger::INFO, "WARN" => Logger::WARN, "ERROR" => Logger::ERROR,
               "FATAL" => Logger::FATAL }.freeze

    NAME = Module.instance_method(:to_s)
    private_constant :NAME

    # What happened; `fields` holds some of q (queue), id (of several: the first), n (how many; of a failure: its
    # retry_count) and elapsed (seconds).
    Event = Struct.new(:name, :text, :fields) do
      def to_s = Log.one_line([name, text, *fields.map { |key, value| "#{key}=#{Log.quote(value)}" }].compact.join(" "))
    end

    # A Logger formatter: one line of text.
    class Line
      def call(level, time, _program, message)
        event = Log.event(message)
        pairs = { pid: Process.pid, tid: Log.thread_id, **event.fields }.map { |key, value| "#{key}=#{Log.quote(value)}" }
        "#{Log.one_line([level, Log.timestamp(time), *pairs, *event.name, *event.text].join(" "))}\n"
      end
    end

    # A Logger formatter: one line of JSON, with ts, lvl, pid, tid, event, msg and the fields.
    class Json
      def call(level, time, _program, message)
        event = Log.event(message)
        line = { ts: Log.timestamp(time), lvl: level, pid: Process.pid, tid: Log.thread_id, event: event.name,
                 msg: event.text, **event.fields }
        "#{Native.printable(JSON.generate(line.compact.transform_values { |value| value.is_a?(String) ? Log.utf8(value) : value }))}\n"
      end
    end

    class << self
      # @return [Logger, nil] the process' one, which is Seriatim.logger; nil: nothing is logged
      attr_accessor :logger
    end

    module_function

    # @return [Logger] writes lines to standard output, from INFO up
    def default(output = $stdout, format: nil, level: Logger::INFO)
      output.sync = true if output.respond_to?(:sync=)
      Logger.new(output, level: level, formatter: formatter(format))
    end

    # @param format [String, Symbol, nil] "json"; all else is text
    def formatter(format) = format.to_s == "json" ? Json.new : Line.new

    # Logs an event; never raises, whatever the application's logger does.
    # @param level [Integer] as in Logger
    def write(level, name, text = nil, **fields)
      logger = Log.logger or return
      return unless level >= level_of(logger)

      event = Event.new(name, text && utf8(text), fields.slice(*FIELDS).compact)
      add(logger, level, ours?(logger) ? event : event.to_s)
    end

    # What a person is to see although standard output may be read by a program: a line of our own format goes to standard
    # error. A Logger of the application's own format takes it as any event.
    def notice(name, text)
      logger = Log.logger
      return info(name, text) unless logger && ours?(logger) && level_of(logger) <= Logger::INFO

      $stderr.write(logger.formatter.call("INFO", Time.now, nil, Event.new(name, utf8(text), {})))
    rescue SystemCallError, IOError
      nil
    end

    # Interrupts from other threads wait, so that what is rescued is the logger's own.
    def add(logger, level, event)
      Thread.handle_interrupt(Interrupts::MASKED) do
        logger.add(level, event)
      rescue Exception # rubocop:disable Lint/RescueException
        nil
      end
    end

    # The level from which on the logger takes events, as in Logger. Some loggers of applications name theirs by a Symbol, as SemanticLogger
    # does. One that is not known counts as DEBUG: the logger itself may drop what it is given.
    def level_of(logger)
      level = logger.level
      level.is_a?(Integer) ? level : LEVELS.fetch(level.to_s.upcase, Logger::DEBUG)
    rescue StandardError, ScriptError
      Logger::DEBUG
    end

    def debug? = !Log.logger.nil? && level_of(Log.logger) <= Logger::DEBUG
    def debug(name, text = nil, **fields) = write(Logger::DEBUG, name, text, **fields)
    def info(name, text = nil, **fields) = write(Logger::INFO, name, text, **fields)
    def warn(name, text = nil, **fields) = write(Logger::WARN, name, text, **fields)
    def error(name, text = nil, **fields) = write(Logger::ERROR, name, text, **fields)

    # "RuntimeError: message (file:line)", whatever the error's own methods do.
    def describe(error)
      return error.to_s unless error.is_a?(Exception)

      at = error.backtrace&.first
      "#{error.class}: #{error.message}#{" (#{at})" if at}"
    rescue Exception # rubocop:disable Lint/RescueException
      NAME.bind_call(error.class)
    end

    BRIEF = 500 # characters
    BACKTRACE_LINES = 10
    FORMATTED_BYTES = 4096
    private_constant :BRIEF, :BACKTRACE_LINES, :FORMATTED_BYTES

    # The default of the setting format_error.
    def format_error(error)
      lines = ["#{error.class}: #{error.message}", *error.backtrace&.first(BACKTRACE_LINES)]
      text = lines.map { |line| utf8(line) }.join("\n")
      text.bytesize > FORMATTED_BYTES ? text.byteslice(0, FORMATTED_BYTES).scrub("") : text
    end

    # The error's first line, cut where it is long, and the place where it was raised.
    def brief(error)
      place = place_of(error)
      text = utf8(describe(error)).delete_suffix(place)
      first = text[/\A[^\r\n]*/]
      "#{first[0, BRIEF]}#{"..." if first.size > BRIEF}#{place}"
    end

    def place_of(error)
      at = error.backtrace&.first if error.is_a?(Exception)
      at ? utf8(" (#{at})") : ""
    rescue Exception # rubocop:disable Lint/RescueException
      ""
    end

    def event(message) = message.is_a?(Event) ? message : Event.new(nil, utf8(message.to_s), {})
    def ours?(logger) = logger.formatter.is_a?(Line) || logger.formatter.is_a?(Json)
    def timestamp(time) = time.getutc.strftime("%Y-%m-%dT%H:%M:%S.%LZ")
    def thread_id = (Thread.current.object_id ^ Process.pid).to_s(36)

    def quote(value)
      text = value.is_a?(Float) ? format("%.3f", value) : utf8(value.to_s)
      text.match?(/\A[^"=\p{Z}\p{Cntrl}]+\z/) ? text : text.inspect
    end

    # The text as a terminal may show it: control characters, which could move its cursor or end a row of a table, are escaped.
    def printable(text) = Native.printable(utf8(text))

    # The same as one line of a log.
    def one_line(text) = Native.printable(utf8(text).gsub(/[\r\n]+/, " | "))

    # The same of a text of several lines, a backtrace for one.
    def printable_lines(text) = utf8(text).split("\n").map { |line| Native.printable(line.gsub("\t", "    ")) }.join("\n")

    def utf8(text)
      text.encoding == Encoding::UTF_8 && text.valid_encoding? ? text : text.dup.force_encoding(Encoding::UTF_8).scrub("?")
    end
  end
end
