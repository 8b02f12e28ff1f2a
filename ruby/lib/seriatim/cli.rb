# frozen_string_literal: true

require "optparse"
require "seriatim"
require "seriatim/application"
require "seriatim/config_file"
require "seriatim/cli/server_command"
require "seriatim/cli/operators"
require "seriatim/cli/web"

module Seriatim
  # The command `seriatim`. Exit codes: 0 stopped, 1 crashed, 2 usage, 3 no Redis.
  class CLI
    STOPPED, CRASHED, USAGE, NO_REDIS = 0, 1, 2, 3

    BANNER = <<~TEXT
      Usage: seriatim -r PATH [options]                    run the server
             seriatim push QUEUE ID [PAYLOAD]              enqueue; PAYLOAD is JSON
             seriatim stats [QUEUE...] [--json]            the figures of the queues
             seriatim explain QUEUE ID                     why this id is or is not running
             seriatim dead list|retry|delete QUEUE [ID...] [--all]
             seriatim pause|resume QUEUE [ID]              a queue, or one id of it
             seriatim queues delete QUEUE [--force QUEUE]  delete a queue that no node serves; with what it holds: --force
             seriatim check [QUEUE...] [--repair]          prove what is stored; exit code 1 if it is not right
             seriatim web [--bind ADDRESS] [--port N]      the dashboard, at http://127.0.0.1:9292/

      Redis: SERIATIM_REDIS_URL, REDIS_URL or Seriatim.redis; without any, a private one (not in production).

    TEXT

    VERBS = %w[server push stats explain dead pause resume queues check reshard web].freeze

    # @return [Integer] the exit code
    def self.run(argv) = new.run(argv)

    # @return [Integer] the exit code
    def run(argv)
      @options = {}
      words = parser.parse(argv)
      return @done if @done

      merge_config_file
      dispatch(words)
    rescue PrivateRedis.const_get(:Refused) => e
      complain(NO_REDIS, e.message)
    rescue OptionParser::ParseError, UsageError, Invalid => e
      complain(USAGE, e.message, "see seriatim --help")
    rescue ConnectionError, AuthError, NotReady => e
      complain(NO_REDIS, "no Redis: #{e.message}")
    rescue Error => e
      complain(CRASHED, e.message)
    rescue Errno::EPIPE
      CRASHED
    end

    private

    def dispatch(words)
      verb = words.first ? words.shift : "server"
      raise UsageError, "unknown command #{verb}; there are #{VERBS.join(", ")}" unless VERBS.include?(verb)

      apply_environment
      raise UsageError, "unexpected #{words.join(" ")}" if %w[server web].include?(verb) && words.any?
      return ServerCommand.new(@options).run if verb == "server"

      Seriatim.logger = Log.default($stderr, format: @options[:log_format], level: @options[:verbose] ? Logger::DEBUG : Logger::INFO)
      verb == "web" ? WebCommand.new(@options).run : Operators.new(@options).call(verb, words)
    end

    def complain(code, *lines)
      warn "seriatim: #{lines.map { |line| Log.one_line(line) }.join("\n          ")}"
      code
    end

    # What the command line says wins.
    def merge_config_file
      path = @options.delete(:config) or return
      @options = ConfigFile.read(path, @options[:environment]).merge(@options)
    end

    def apply_environment
      name = @options[:environment] or return
      %w[SERIATIM_ENV RAILS_ENV RACK_ENV APP_ENV].each { |variable| ENV[variable] = name.to_s }
    end

    def parser
      OptionParser.new(BANNER) do |o|
        server_options(o)
        verb_options(o)
        o.separator ""
        o.on("-V", "--version", "print the version") { say("seriatim #{VERSION}") }
        o.on("-h", "--help", "print this") { say(o.help) }
      end
    end

    def server_options(parser)
      o = parser
      o.on("-r", "--require PATH", "the application: a file, or a folder with config/environment.rb") { |v| @options[:require] = v }
      o.on("-C", "--config FILE", "settings from a YAML file (ERB allowed)") { |v| @options[:config] = v }
      o.on("-c", "--threads N", Integer, "threads a process (Seriatim.threads_per_node)") { |v| @options[:threads] = v }
      o.on("-p", "--processes N", Integer, "processes, by fork (1)") { |v| @options[:processes] = v }
      o.on("-q", "--queue NAME", "only this queue; may be repeated") { |v| (@options[:queues] ||= []) << v }
      o.on("-t", "--timeout SECONDS", Float, "what a stop gives to running jobs (25)") { |v| @options[:timeout] = v }
      o.on("-e", "--environment NAME", "production, development, ...") { |v| @options[:environment] = v }
      o.on("-v", "--verbose", "log every job") { @options[:verbose] = true }
      o.on("--log-format FORMAT", %w[text json], "text or json") { |v| @options[:log_format] = v }
    end

    def verb_options(parser)
      o = parser
      o.on("--json", "stats, explain, dead list, check: print JSON") { @options[:json] = true }
      o.on("--all", "dead retry, dead delete: all of them") { @options[:all] = true }
      o.on("--limit N", Integer, "dead list: at most so many (100)") { |v| @options[:limit] = v }
      o.on("--create", "push: makes the queue if it is not there") { @options[:create] = true }
      o.on("--shards N", Integer, "push --create: how many shards a new queue gets (5)") { |v| @options[:shards] = v }
      o.on("--force QUEUE", "queues delete: also with what it holds; the name again") { |v| @options[:force] = v }
      o.on("--delay SECONDS", Float, "push: not before so many seconds") { |v| @options[:delay] = v }
      o.on("--score SCORE", Float, "push: the payload's place among the id's") { |v| @options[:score] = v }
      web_options(o)
      o.on("--repair", "check: mend what can be mended without losing a payload") { @options[:repair] = true }
    end

    def web_options(parser)
      o = parser
      o.on("--bind ADDRESS", "web: a loopback address, unix:PATH, or with --token any (127.0.0.1)") { |v| @options[:bind] = v }
      o.on("--port N", Integer, "web: (9292); 0: a free one") { |v| @options[:port] = v }
      o.on("--token TOKEN", "web: what `Authorization: Bearer` must say") { |v| @options[:token] = v }
      o.on("--read-only", "web: nothing can be changed through it") { @options[:read_only] = true }
    end

    def say(text)
      puts text
      @done = STOPPED
    end
  end
end
