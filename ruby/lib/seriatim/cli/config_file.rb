# frozen_string_literal: true

require "erb"
require "yaml"

module Seriatim
  # The file of -C: YAML with ERB. Keys are require, threads, processes, queues, timeout, environment, verbose and
  # log_format; any other key must hold a map and is the name of an environment, whose keys win there.
  # @api private
  module ConfigFile
    # What each key must hold, in words and as a test.
    RULES = {
      require: ["a text", String],
      threads: ["an integer", Integer],
      processes: ["an integer", Integer],
      queues: ["a list of texts", ->(value) { value.is_a?(Array) && value.all?(String) }],
      timeout: ["a number of seconds", ->(value) { value.is_a?(Integer) || (value.is_a?(Float) && value.finite?) }],
      environment: ["a text", String],
      verbose: ["true or false", ->(value) { [true, false].include?(value) }],
      log_format: ["text or json", ->(value) { %w[text json].include?(value) }]
    }.freeze

    module_function

    # @param environment [String, nil] of -e
    # @return [Hash{Symbol => Object}]
    # @raise [UsageError]
    def read(path, environment)
      root = parse(path)
      sections, plain = root.partition { |key, value| value.is_a?(Hash) && !RULES.key?(key) }.map(&:to_h)
      checked(path, plain)
      name = environment || plain[:environment] || PrivateRedis.environment
      plain.merge(checked(path, sections.fetch(name.to_sym, {})))
    end

    def parse(path)
      text = ERB.new(File.read(path, encoding: Encoding::UTF_8), trim_mode: "-").result
      root = YAML.safe_load(text, aliases: true, symbolize_names: true, filename: path) || {}
      root.is_a?(Hash) ? root : raise(UsageError, "#{path}: must be a map of settings")
    rescue SystemCallError => e
      raise UsageError, "-C #{path}: #{SystemCallError.new(nil, e.errno).message}" # without the C function that failed
    rescue Psych::Exception => e
      raise UsageError, "-C #{e.message}"
    rescue UsageError
      raise
    rescue StandardError, ScriptError => e # the file's own Ruby
      raise UsageError, "-C #{path}: #{e.class}: #{e.message.lines.first.to_s.chomp}"
    end

    def checked(path, settings)
      unknown = settings.keys - RULES.keys
      raise UsageError, "#{path}: unknown key #{unknown.join(", ")}; known are #{RULES.keys.join(", ")}" unless unknown.empty?

      settings.each do |key, value|
        words, rule = RULES.fetch(key)
        raise UsageError, "#{path}: #{key} must be #{words}, not #{Validate.describe(value)}" unless rule === value # rubocop:disable Style/CaseEquality
      end
    end
  end
  private_constant :ConfigFile
end
