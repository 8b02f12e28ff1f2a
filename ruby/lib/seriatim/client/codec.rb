# frozen_string_literal: true

module Seriatim
  # Turns payloads into bytes and back.
  # @api private
  module Codec
    # Canonical JSON (RFC 8785, integers exact within int64).
    module JSON
      module_function

      def dump(payload, where) = Native.dump(payload, where)
      def load(bytes) = Native.load(bytes)
    end

    # The bytes themselves.
    module Raw
      module_function

      def dump(payload, where)
        payload.is_a?(String) ? payload : raise(Invalid, "#{where}: must be a String of bytes, not a #{payload.class}")
      end

      def load(bytes) = bytes
    end

    # Ruby's own format, for queues that come from Lowkiq. Reading it may run any code of the process: only for a Redis whose writers are trusted.
    module Marshal
      module_function

      def dump(payload, where)
        ::Marshal.dump(payload)
      rescue TypeError => e
        raise Invalid, "#{where}: #{e.message}"
      end

      def load(bytes) = ::Marshal.load(bytes) # rubocop:disable Security/MarshalLoad
    end

    # A pair of callables of the application's.
    class Own
      def initialize(dump, load)
        @dump = dump
        @load = load
      end

      def dump(payload, where)
        bytes = @dump.call(payload)
        bytes.is_a?(String) ? bytes : raise(Invalid, "#{where}: dump_payload must return a String, not a #{bytes.class}")
      end

      def load(bytes) = @load.call(bytes)
    end

    NAMED = { json: JSON, raw: Raw, marshal: Marshal }.freeze
    RULE = ":json, :raw, :marshal or a pair of callables [dump, load]"
    private_constant :NAMED, :RULE

    module_function

    # The codec of a worker's setting: the name of one, [dump, load]; nil for nil, which leaves it to the module.
    def of(setting)
      setting.is_a?(Array) ? Own.new(*setting) : NAMED[setting]
    end

    # That of the module's dump_payload and load_payload.
    def module_wide
      dump = Seriatim.dump_payload
      load = Seriatim.load_payload
      return JSON unless dump || load

      Own.new(dump || ->(payload) { Native.dump(payload, "payload") }, load || ->(bytes) { Native.load(bytes) })
    end

    def check(setting, field = "codec")
      case setting
      when nil then nil
      when Symbol, String then Validate.word(field, setting, NAMED.keys)
      when Array
        return setting if setting.size == 2 && setting.all? { |part| part.respond_to?(:call) }

        Validate.refuse(field, RULE, setting)
      else Validate.refuse(field, RULE, setting)
      end
    end
  end
  private_constant :Codec
end
