# frozen_string_literal: true

module Conformance
  # The values of the files, and the comparison with what was found. `start` is T.
  class Values
    FLOATS = { "NaN" => Float::NAN, "Infinity" => Float::INFINITY, "-Infinity" => -Float::INFINITY }.freeze
    HASHES = [%w[hex], %w[repeat times]].freeze

    attr_reader :start

    def initialize(start = 0.0)
      @start = start
    end

    # The bytes that a text, {"hex"} or {"repeat", "times"} means, as UTF-8 where they are.
    def self.bytes(value)
      return value unless value.is_a?(Hash)

      bytes = value.key?("hex") ? [value["hex"]].pack("H*") : value["repeat"] * value["times"]
      bytes.force_encoding(Encoding::UTF_8).valid_encoding? ? bytes : bytes.b
    end

    def self.number(value) = FLOATS.fetch(value, value)

    # What is wrong with `found`, as a list of texts.
    def compare(wanted, found, where)
      case wanted
      when Hash then compare_hash(wanted, found, where)
      when Array then compare_list(wanted, found, where)
      else same?(wanted, found) ? [] : differs(wanted, found, where)
      end
    end

    # Payloads are compared whole.
    def compare_payloads(wanted, found, where, raw)
      wanted = wanted.map { |value| Values.bytes(value).b } if raw
      found = found&.map(&:b) if raw
      wanted == found ? [] : differs(wanted, found, where)
    end

    # [[payload, score], ...]
    def compare_scored(wanted, found, where, raw)
      compare_payloads(wanted.map(&:first), found&.map(&:first), where, raw) +
        compare(wanted.map(&:last), found&.map(&:last), "#{where}, scores")
    end

    # The members of an object that a list of records or jobs is made of.
    def compare_record(wanted, found, where, raw)
      wanted.flat_map do |key, value|
        at = "#{where}.#{key}"
        next compare(value, found[key.to_sym], at) unless key == "payloads"

        pairs = value.first.is_a?(Array) && found[:payloads].is_a?(Array) && found[:scored]
        pairs ? compare_scored(value, found[:payloads], at, raw) : compare_payloads(value, found[:payloads], at, raw)
      end
    end

    private

    def same?(wanted, found)
      wanted.is_a?(String) && found.is_a?(String) ? wanted.b == found.b : wanted == found
    end

    def compare_hash(wanted, found, where)
      return same?(Values.bytes(wanted), found) ? [] : differs(wanted, found, where) if HASHES.include?(wanted.keys)

      fits = special(wanted, found)
      return fits ? [] : differs(wanted, found, where) unless fits.nil?

      wanted.flat_map { |key, value| compare(value, found && found.fetch(key.to_sym) { found[key] }, "#{where}.#{key}") }
    end

    # nil: it is none of them.
    def special(wanted, found)
      return found.to_s.b.include?(wanted["has"].b) if wanted.key?("has")
      return near?(found, start + wanted["at"], wanted) if wanted.key?("at")
      return near?(found, start + ((wanted["from"] + wanted["to"]) / 2.0), { "within" => (wanted["to"] - wanted["from"]) / 2.0 }) if wanted.key?("from")
      return near?(found, Time.now.to_f + wanted["from_now"], wanted) if wanted.key?("from_now")
      return unless (wanted.keys - %w[min max]).empty? && !wanted.empty?

      found.is_a?(Numeric) && found >= wanted.fetch("min", -Float::INFINITY) && found <= wanted.fetch("max", Float::INFINITY)
    end

    def near?(found, time, wanted) = found.is_a?(Numeric) && (found - time).abs <= wanted["within"]

    def compare_list(wanted, found, where)
      return differs(wanted, found, where) unless found.is_a?(Array) && found.size == wanted.size

      wanted.each_index.flat_map { |at| compare(wanted[at], found[at], "#{where}[#{at}]") }
    end

    def differs(wanted, found, where) = ["#{where} is #{found.inspect[0, 300]}, not #{wanted.inspect[0, 300]}"]
  end
end
