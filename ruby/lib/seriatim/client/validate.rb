# frozen_string_literal: true

module Seriatim
  # Early validation: each returns the value it was given, in its final form, or raises {Invalid} naming the field
  # and the rule.
  module Validate
    module_function

    def refuse(field, rule, value) = raise(Invalid, "#{field} must be #{rule}, not #{describe(value)}")

    # What the command answers with exit code 2: seen at the start of a server.
    def misuse(field, rule, value) = raise(UsageError, "#{field} must #{rule}, not #{describe(value)}")

    def integer(field, value, range)
      value.is_a?(Integer) && range.cover?(value) ? value : refuse(field, "an Integer from #{range.min} to #{range.max}", value)
    end

    def seconds(field, value, range)
      number?(value) && range.cover?(value.to_f) ? value : refuse(field, "a number of seconds from #{range.begin} to #{range.end}", value)
    end

    def number?(value) = value.is_a?(Numeric) && value.real? && !value.to_f.nan?

    LONGEST_DELAY = 100 * 365.25 * 86_400 # seconds

    # How long an id that comes back waits.
    # @return [Float]
    def delay(field, value) = seconds(field, value, 0.0..LONGEST_DELAY).to_f

    def time_to_run(field, value) = seconds(field, value, 0.0..31_536_000.0).to_f

    # What a codec has made of a payload.
    def payload_bytes(field, bytes)
      return bytes if bytes.bytesize <= Native::MAX_PAYLOAD

      raise Invalid, "#{field} is #{bytes.bytesize} bytes long; at most #{Native::MAX_PAYLOAD} are allowed: store it elsewhere and pass its key"
    end

    def wait_replicas(count) = integer("wait_replicas", count, 0..1000)
    def wait_timeout(seconds) = seconds("wait_timeout", seconds, 0.001..10.0)
    def push_timeout(seconds) = seconds("push_timeout", seconds, 0.1..50.0)

    def word(field, value, words)
      word = value.to_sym if value.is_a?(String) || value.is_a?(Symbol)
      words.include?(word) ? word : refuse(field, "one of #{words.join(", ")}", value)
    end

    def callable(field, value, none: false)
      value.respond_to?(:call) || (none && value.nil?) ? value : refuse(field, "callable#{" or nil" if none}", value)
    end

    def list(field, value)
      value.is_a?(Array) ? value : refuse(field, "an Array", value)
    end

    # A list of callables; an item that is appended later is checked when the list is used.
    def callables(field, value)
      list(field, value).each_with_index { |item, place| callable("#{field}[#{place}]", item) }
    end

    def text(field, value, range)
      text = value.is_a?(Symbol) ? value.name : value
      return text if text.is_a?(String) && range.cover?(text.bytesize)

      refuse(field, "a text of #{range.min} to #{range.max} bytes", value)
    end

    # @return [Array<String>] names of queues
    def queue_names(field, value)
      list(field, value).each_with_index.map { |name, place| text("#{field}[#{place}]", name, 1..512) }
    end

    def flag(field, value) = [true, false].include?(value) ? value : refuse(field, "true or false", value)

    # As the core reads it, which shows no password in its errors.
    def redis_url(field, url)
      Native::Link.new(url, "seriatim", nil, 0, nil).close
      url
    rescue ArgumentError => e
      raise Invalid, "#{field} must be a Redis URL: #{e.message.delete_prefix("Redis URL: ")}"
    end

    # @param setting [Hash] an element of Native.worker_settings
    def setting(field, value, setting)
      kind, range = setting.values_at(:kind, :range)
      return value if value.nil? && setting[:optional]
      return flag(field, value) if kind == :flag

      kind == :word ? word(field, value, setting[:words]) : public_send(kind, field, value, range)
    end

    def describe(value)
      text = value.inspect
      text = "#{text[0, 60]}..." if text.size > 63
      "#{text} (#{value.class})"
    rescue Exception # rubocop:disable Lint/RescueException
      "a #{value.class}"
    end
  end
  private_constant :Validate
end
