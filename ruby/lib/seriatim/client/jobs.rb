# frozen_string_literal: true

module Seriatim
  # The rules of perform_async for values that the native reader of jobs leaves to Ruby: whatever is no String, Integer
  # or Float. Each takes the value and the job's place, and gives what the core takes or raises {Invalid}.
  # @api private
  module Jobs
    MOST = (2**63) - 1 # of an Integer of the core, which refuses what is above its own limit
    ON_WAITING = Native.worker_settings.find { |setting| setting[:name] == :on_waiting }.fetch(:words)

    module_function

    # @return [Array<String>] each payload's bytes
    def payloads(jobs, codec)
      jobs.each_with_index.map { |job, at| codec.dump(job.fetch(:payload, ""), "jobs[#{at}].payload") }
    end

    def id(value, at) = id_text(value) { refuse(at, "id", "a String, Symbol or Integer", value) }

    # The text of an id; yields what cannot be one.
    def id_text(value)
      case value
      when String then value
      when Symbol then value.name
      when Integer then value.to_s
      else yield value
      end
    end

    # The text of the one id that a call takes.
    def one_id_text(id) = id_text(id) { |value| Validate.refuse("id", "a String, Symbol or Integer", value) }

    # @return [Array<String>] of ids that an operator gives
    def id_texts(ids)
      raise Invalid, "ids must be an Array, not a #{ids.class}" unless ids.is_a?(Array)

      ids.each_with_index.map do |id, at|
        id_text(id) { |value| Validate.refuse("ids[#{at}]", "a String, Symbol or Integer", value) }
      end
    end

    def score(value, at) = number(value) { refuse(at, "score", "a number", value) }
    def delay(value, at) = number(value) { refuse(at, "delay", "a number of seconds", value) }
    def perform_in(value, at) = unix_time(value) { refuse(at, "perform_in", "a Time or a number of Unix seconds", value) }
    def perform_at(value, at) = unix_time(value) { refuse(at, "perform_at", "a Time or a number of Unix seconds", value) }
    def deliver_at(value, at) = unix_time(value) { refuse(at, "deliver_at", "a Time or a number of Unix seconds", value) }
    def deliver_in(value, at) = number(value) { refuse(at, "deliver_in", "a number of seconds", value) }

    def number(value) = value.is_a?(Numeric) && value.real? ? value.to_f : yield

    def unix_time(value, &refuse)
      return value.to_f if value.is_a?(Time)
      return value.to_time.to_f if defined?(Date) && value.is_a?(Date)

      number(value, &refuse)
    end

    def retry_count(count, at)
      count.is_a?(Integer) && count >= -1 ? [count, MOST].min : refuse(at, "retry_count", "an Integer of -1 or more", count)
    end

    def on_waiting(word, at)
      Validate.word("jobs[#{at}]: on_waiting", word, ON_WAITING).name unless word.nil?
    end

    # @return [String, nil] as JSON
    def context(map, at)
      refuse(at, "context", "a Hash of Strings", map) unless map.is_a?(Hash)
      map.each do |key, value|
        text = value.is_a?(String) || value.is_a?(Symbol)
        raise Invalid, "jobs[#{at}].context[#{key.inspect}]: must be a String, not a #{value.class}" unless text
      end
      Native.dump(map, "jobs[#{at}].context") unless map.empty?
    end

    def refuse(at, key, rule, value) = Validate.refuse("jobs[#{at}]: #{key}", rule, value)
  end
  private_constant :Jobs
end
