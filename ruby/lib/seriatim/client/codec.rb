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

    module_function

    # The codec of a worker's setting: :json, :raw, [dump, load]; nil for nil, which leaves it to the module.
    def of(setting)
      case setting
      when :json then JSON
      when :raw then Raw
      when Array then Own.new(*setting)
      end
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
      when Symbol, String then Validate.word(field, setting, %i[json raw])
      when Array
        return setting if setting.size == 2 && setting.all? { |part| part.respond_to?(:call) }

        Validate.refuse(field, ":json, :raw or a pair of callables [dump, load]", setting)
      else Validate.refuse(field, ":json, :raw or a pair of callables [dump, load]", setting)
      end
    end
  end
  private_constant :Codec
end
