# frozen_string_literal: true

require "erb"
require "yaml"

module Seriatim
  # The file of -C: YAML with ERB. Keys are require, threads, processes, queues, timeout, environment, verbose and
  # log_format; a key that holds a map is the name of an environment, whose keys win there.
  # @api private
  module ConfigFile
    KEYS = %i[require threads processes queues timeout environment verbose log_format].freeze

    module_function

    # @param environment [String, nil] of -e
    # @return [Hash{Symbol => Object}]
    # @raise [UsageError]
    def read(path, environment)
      root = parse(path)
      sections, plain = root.partition { |_, value| value.is_a?(Hash) }.map(&:to_h)
      name = environment || plain[:environment] || PrivateRedis.environment
      known(path, plain).merge(known(path, sections.fetch(name.to_sym, {})))
    end

    def parse(path)
      text = ERB.new(File.read(path), trim_mode: "-").result
      root = YAML.safe_load(text, aliases: true, symbolize_names: true, filename: path) || {}
      root.is_a?(Hash) ? root : raise(UsageError, "#{path}: must be a map of settings")
    rescue SystemCallError => e
      raise UsageError, "-C #{path}: #{e.message}"
    rescue Psych::Exception => e
      raise UsageError, "-C #{e.message}"
    end

    def known(path, settings)
      unknown = settings.keys - KEYS
      return settings if unknown.empty?

      raise UsageError, "#{path}: unknown key #{unknown.join(", ")}; known are #{KEYS.join(", ")}"
    end
  end
  private_constant :ConfigFile
end
