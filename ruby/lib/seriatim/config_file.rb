# frozen_string_literal: true

require "erb"
require "yaml"

module Seriatim
  # The file of -C, and config/seriatim.yml of a Rails application: YAML with ERB. Keys are options of the command and settings of
  # the module Seriatim; any other key must hold a map and is the name of an environment, whose keys win there.
  # @api private
  module ConfigFile
    OF_RAILS = "config/seriatim.yml" # in the folder of an application
    TEXTS = ["a list of texts", ->(value) { value.is_a?(Array) && value.all?(String) }].freeze
    # Options of the command: what each must hold, in words and as a test.
    OPTIONS = {
      require: ["a text", String],
      threads: ["an integer", Integer],
      processes: ["an integer", Integer],
      queues: TEXTS,
      timeout: ["a number of seconds", ->(value) { value.is_a?(Integer) || (value.is_a?(Float) && value.finite?) }],
      environment: ["a text", String],
      verbose: ["true or false", ->(value) { [true, false].include?(value) }],
      log_format: ["text or json", ->(value) { %w[text json].include?(value) }]
    }.freeze
    ANY = ["a value", ->(_) { true }].freeze
    # Settings of the module, which checks the values of most of them itself.
    SETTINGS = {
      redis: ["a text", String], namespace: ["a text", String], workers: TEXTS, active_job_queues: TEXTS,
      **%i[client_pool_size pool_timeout push_timeout wait_replicas wait_timeout poll_interval lease_time].to_h { |name| [name, ANY] }
    }.freeze
    RULES = { **OPTIONS, **SETTINGS }.freeze
    # Options that are settings of the module under another name.
    NAMES = { threads: :threads_per_node, timeout: :stop_timeout }.freeze
    private_constant :TEXTS, :OPTIONS, :ANY, :SETTINGS, :RULES, :NAMES

    module_function

    # Reads the file that this process goes by from now on: process-wide state.
    # @param environment [String, nil] whose keys win; nil: the one that the file names, or the environment variables
    # @param called [String] how errors name a file that cannot be read
    # @raise [UsageError]
    def use(path, environment, called: "-C #{path}")
      @values = read(path, environment, called: called)
      @path = path
    end

    # @return [Boolean] a file was read
    def used? = !@values.nil?

    # Forgets the file; for tests.
    def forget = @values = nil

    # @return [Hash{Symbol => Object}] the file's options of the command but those that {apply} sets
    def options = (@values || {}).slice(*OPTIONS.keys - NAMES.keys)

    # Sets the settings of the module to what the file says. Environment variables win over it.
    # @raise [UsageError] names the file, the key and the rule
    def apply
      (@values || {}).slice(*NAMES.keys, *SETTINGS.keys).each do |key, value|
        set(NAMES.fetch(key, key), value)
      rescue Invalid => e
        raise UsageError, "#{@path}: #{e.message}"
      end
    end

    # Sets an attribute of Seriatim unless an environment variable says it.
    def set(name, value)
      case name
      when :active_job_queues then set_active_job_queues(value)
      when :redis then Seriatim.redis = value unless RedisUrl.variable
      when :threads_per_node then Seriatim.threads_per_node = value if ENV.fetch("RAILS_MAX_THREADS", "").empty?
      else Seriatim.public_send(:"#{name}=", value)
      end
    end

    # Where ActiveJob is there, and not before an application has loaded it.
    def set_active_job_queues(names)
      return unless defined?(::ActiveSupport.on_load)

      ::ActiveSupport.on_load(:active_job) do
        require "seriatim/active_job"
        Seriatim::ActiveJob.queues = names
      end
    end

    # @return [Hash{Symbol => Object}]
    # @raise [UsageError]
    def read(path, environment, called: "-C #{path}")
      root = parse(path, called)
      sections, plain = root.partition { |key, value| value.is_a?(Hash) && !RULES.key?(key) }.map(&:to_h)
      checked(path, plain)
      name = environment || plain[:environment] || PrivateRedis.environment
      plain.merge(checked(path, sections.fetch(name.to_sym, {})))
    end

    def parse(path, called)
      text = ERB.new(File.read(path, encoding: Encoding::UTF_8), trim_mode: "-").result
      root = YAML.safe_load(text, aliases: true, symbolize_names: true, filename: path) || {}
      root.is_a?(Hash) ? root : raise(UsageError, "#{path}: must be a map of settings")
    rescue SystemCallError => e
      raise UsageError, "#{called}: #{SystemCallError.new(nil, e.errno).message}" # without the C function that failed
    rescue Psych::DisallowedClass => e # its message names no file
      raise UsageError, "#{path}: #{disallowed(YAML.parse(text)) || e.message}"
    rescue Psych::Exception => e
      raise UsageError, "#{called.delete_suffix(path)}#{e.message}"
    rescue UsageError
      raise
    rescue StandardError, ScriptError => e # the file's own Ruby
      raise UsageError, "#{called}: #{e.class}: #{e.message.lines.first.to_s.chomp}"
    end

    # Which key or value YAML reads as a symbol, a date or a time, and what to write.
    # @param node [Psych::Nodes::Node]
    # @param key [String, nil] whose value it is
    # @return [String, nil]
    def disallowed(node, key = nil)
      case node
      when Psych::Nodes::Scalar then wrong(node, key || "a value")
      when Psych::Nodes::Mapping
        node.children.each_slice(2).lazy.filter_map do |name, value|
          name.is_a?(Psych::Nodes::Scalar) ? wrong(name, "a key") || disallowed(value, name.value) : disallowed(value, key)
        end.first
      else node.children.to_a.lazy.filter_map { |child| disallowed(child, key) }.first
      end
    end

    def wrong(node, what)
      type = type_of(node) or return
      "line #{node.start_line + 1}: #{what} must not be a #{type}; write #{unlike(node, type)}"
    end

    # @return [String, nil] the class, of those that a file must not have
    def type_of(node)
      return if node.quoted || node.tag

      type = Psych::ScalarScanner.new(Psych::ClassLoader.new).tokenize(node.value).class.name
      type.downcase if %w[Symbol Date Time].include?(type)
    end

    def unlike(node, type)
      type == "symbol" ? "#{node.value.delete_prefix(":")} without the leading colon, not #{node.value}" : "#{node.value} in quotes if it is a text"
    end

    def checked(path, settings)
      unknown = settings.keys - RULES.keys
      raise UsageError, "#{path}: unknown key #{unknown.join(", ")}; known are #{RULES.keys.join(", ")}" unless unknown.empty?

      settings.each do |key, value|
        words, rule = RULES.fetch(key)
        raise UsageError, "#{path}: #{key} must be #{words}, not #{Validate.describe(value)}" unless rule === value # rubocop:disable Style/CaseEquality
      end
    end
    private_class_method :set_active_job_queues, :parse, :disallowed, :wrong, :type_of, :unlike, :checked
  end
  private_constant :ConfigFile
end
