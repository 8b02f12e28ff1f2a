# frozen_string_literal: true

require "optparse"
require "seriatim"
require "seriatim/server/application"
require "seriatim/config_file"
require "seriatim/cli/exit_codes"
require "seriatim/cli/server_command"
require "seriatim/cli/operators"
require "seriatim/cli/web_command"
require "seriatim/cli/outbox_command"

module Seriatim
  # The command `seriatim`. Exit codes: 0 stopped, 1 crashed, 2 usage, 3 no Redis.
  class CLI
    # The same words in each language: core/command/command.json.
    VERBS = Native.command_text("verbs").split.freeze
    OPTIONS = Native.command_text("options").lines.map { |line| line.split(": ") }.to_h.transform_values(&:split).freeze # by verb, or by verb and action
    WITHOUT_REDIS = %w[help version man completion].freeze
    DECIMAL = OptionParser::DecimalInteger # Integer would read 010 as 8
    NEGATIVE = /\A-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\z/i # a number
    private_constant :OPTIONS, :WITHOUT_REDIS, :DECIMAL, :NEGATIVE

    # @param held [Array<String>, nil] TERM and INT that came so far, to which their handlers still add; nil: the caller has set no
    #   handlers
    # @return [Integer] the exit code
    def self.run(argv, held = nil) = new(held).run(argv)

    def initialize(held = nil)
      @held = held
    end

    # @return [Integer] the exit code
    def run(argv)
      @options = {}
      words = parse(argv)
      refuse_foreign_option(words)
      return say_of_itself(words) if @options[:help] || @options[:version] || WITHOUT_REDIS.include?(words.first)

      read_config_file(words.first)
      dispatch(words)
    rescue PrivateRedis.const_get(:Refused) => e
      complain(NO_REDIS, e.message)
    rescue ApplicationError => e
      complain(USAGE, e.message)
      warn Log.printable_lines(e.cause.full_message(highlight: false)) if e.cause && @options[:verbose]
      USAGE
    rescue OptionParser::ParseError => e
      # Its suggestions stand in a second line, without the dashes.
      complain(USAGE, e.message.sub(/\s+Did you mean\?\s+(\S{2,}).*\z/m, ' (did you mean --\1?)'), "see seriatim help")
    rescue UsageError, Invalid => e
      complain(USAGE, e.message, "see seriatim help")
    rescue AuthError => e # Redis answers
      complain(NO_REDIS, e.message)
    rescue Error => e
      Failure.no_redis?(e) ? complain(NO_REDIS, "no Redis: #{e.message}") : complain(CRASHED, e.message)
    rescue Errno::EPIPE
      CRASHED
    rescue Errno::ENOSPC
      complain(CRASHED, "the output cannot be written: #{Errno::ENOSPC.new.message}")
    end

    private

    # As bytes, because optparse raises where a word is not valid in the locale. Names of queues and ids are UTF-8, whatever the locale.
    def parse(argv)
      words = read_options(argv.map(&:b))
      @options.transform_values! { |value| as_utf8(value) }
      as_utf8(words)
    end

    def as_utf8(value)
      case value
      when String then value.dup.force_encoding(Encoding::UTF_8)
      when Array then value.map { |item| as_utf8(item) }
      else value
      end
    end

    def dispatch(words)
      verb = words.first ? words.shift : "server"
      raise UsageError, unknown(verb) unless VERBS.include?(verb)

      apply_environment
      raise UsageError, "unexpected #{words.join(" ")}" if %w[server web outbox].include?(verb) && words.any?
      return ServerCommand.new(@options, @held || []).run if verb == "server"

      release_signals if @held
      Seriatim.logger = Log.default($stderr, format: @options[:log_format], level: @options[:verbose] ? Logger::DEBUG : Logger::INFO)
      case verb
      when "web" then WebCommand.new(@options).run
      when "outbox" then OutboxCommand.new(@options).run
      else Operators.new(@options).call(verb, words)
      end
    end

    # Signals that were held take effect now.
    def release_signals
      %w[TERM INT].each { |name| trap(name, "DEFAULT") }
      @held.each { |name| Process.kill(name, Process.pid) }
    end

    # An option of another verb or action. With -h and -V none is used.
    def refuse_foreign_option(words)
      name = [words.first(2).join(" "), words.first || "server"].find { |line| OPTIONS.key?(line) }
      return if name.nil? || @options[:help] || @options[:version]

      foreign = (@options.keys.map(&:name) - OPTIONS[name]).min
      raise UsageError, "#{text("option #{foreign}")}, not of #{name}" if foreign
    end

    def unknown(verb) = "unknown command #{verb}; there are #{VERBS.join(", ")}"

    # help, version and the like, which need neither Redis nor an application.
    # @return [Integer] the exit code
    def say_of_itself(words)
      return help(words.first == "help" ? words[1] : words.first) if @options[:help] || words.first == "help"
      return say("seriatim #{VERSION}") if @options[:version] || words.first == "version"

      say(text(words.join(" ")) || raise(UsageError, "usage: seriatim completion bash|zsh|fish"))
    end

    def help(verb)
      raise UsageError, unknown(verb) unless verb.nil? || VERBS.include?(verb)

      say(text(["help", verb].compact.join(" ")))
    end

    def text(topic) = Native.command_text(topic)&.gsub("{program}", "seriatim")

    def complain(code, *lines)
      warn "seriatim: #{lines.map { |line| Log.one_line(line) }.join("\n          ")}"
      code
    end

    # The file of -C; or that of the Rails application in this folder, unless the application is loaded, which reads it itself.
    def read_config_file(verb)
      serves = [nil, "server", "outbox"].include?(verb)
      if (path = @options.delete(:config))
        ConfigFile.use(path, @options[:environment])
      elsif !serves && !@options[:require] && Application.rails?(".") && File.file?(ConfigFile::OF_RAILS)
        ConfigFile.use(ConfigFile::OF_RAILS, @options[:environment] || rails_environment, called: ConfigFile::OF_RAILS)
      end
      @options = ConfigFile.options.merge(@options)
      @options[:require] ||= "." if serves && Application.rails?(".")
      ConfigFile.apply
    end

    # As Rails finds it.
    def rails_environment = %w[RAILS_ENV RACK_ENV].map { |name| ENV.fetch(name, "") }.find { |name| !name.empty? } || "development"

    def apply_environment
      name = @options[:environment] or return
      %w[SERIATIM_ENV RAILS_ENV RACK_ENV APP_ENV].each { |variable| ENV[variable] = name.to_s }
    end

    # A word that is a negative number is an id, say, and no option.
    # @return [Array<String>] the words beside the options
    def read_options(argv)
      reader, rest, words = parser, argv.dup, []
      begin
        reader.order!(rest) { |word| words << word }
      rescue OptionParser::ParseError => e
        raise unless NEGATIVE.match?(e.args.first)

        words << e.args.first
        retry # with what follows it
      end
      words + rest
    end

    def parser
      OptionParser.new do |o|
        server_options(o)
        verb_options(o)
        o.on("-V", "--version") { @options[:version] = true }
        o.on("-h", "--help") { @options[:help] = true }
      end
    end

    def server_options(parser)
      o = parser
      o.on("-r", "--require PATH") { |v| @options[:require] = v }
      o.on("-C", "--config FILE") { |v| @options[:config] = v }
      o.on("-c", "--threads N", DECIMAL) { |v| @options[:threads] = v }
      o.on("-p", "--processes N", DECIMAL) { |v| @options[:processes] = v }
      o.on("-q", "--queue NAME") { |v| (@options[:queues] ||= []) << v }
      o.on("-t", "--timeout SECONDS", Float) { |v| @options[:timeout] = v }
      o.on("-e", "--environment NAME") { |v| @options[:environment] = v }
      o.on("-v", "--verbose") { @options[:verbose] = true }
      o.on("--log-format FORMAT", %w[text json]) { |v| @options[:log_format] = v }
    end

    def verb_options(parser)
      o = parser
      %i[json all create repair read_only consume ack watch status no_wait].each { |name| o.on("--#{name.name.tr("_", "-")}") { @options[name] = true } }
      %i[limit shards port].each { |name| o.on("--#{name} N", DECIMAL) { |v| @options[name] = v } }
      %i[delay score wait].each { |name| o.on("--#{name} N", Float) { |v| @options[name] = v } }
      %i[force error id bind token from].each { |name| o.on("--#{name} TEXT") { |v| @options[name] = v } }
    end

    def say(text)
      puts text
      STOPPED
    end
  end
end
