# frozen_string_literal: true

module Seriatim
  # The job hashes of perform_async, checked and turned into what the core takes.
  # @api private
  module Jobs
    KEYS = %i[id payload score perform_in perform_at delay on_waiting context retry_count].freeze
    KEY_OF = KEYS.flat_map { |key| [[key, key], [key.name, key]] }.to_h.freeze
    ON_WAITING = %i[keep earlier later replace reject].freeze
    NOW, AT, DELAY = 0, 1, 2

    module_function

    # Hashes with Symbol keys, the caller's left alone.
    def normalize(jobs)
      raise Invalid, "jobs must be an Array of Hashes, not a #{jobs.class}" unless jobs.is_a?(Array)

      jobs.each_with_index.map { |job, at| known_keys(job, at) }
    end

    def known_keys(job, at)
      raise Invalid, "jobs[#{at}]: must be a Hash, not a #{job.class}" unless job.is_a?(Hash)

      job.each_with_object({}) do |(key, value), known|
        name = KEY_OF[key] or raise Invalid, "jobs[#{at}]: unknown key #{key.inspect}; known are #{KEYS.join(", ")}"
        raise Invalid, "jobs[#{at}]: #{name} is given twice" if known.key?(name)

        known[name] = value
      end
    end

    # @return [Array<Array>] id, payload, score, when, time, retry_count, on_waiting, context a job
    def rows(jobs, codec)
      jobs.each_with_index.map { |job, at| row(job, at, codec) }
    end

    def row(job, at, codec)
      timed = job.key?(:perform_in) || job.key?(:perform_at) || job.key?(:delay)
      moment, time = timed ? due(job, at) : [NOW, 0.0]
      [id(job, at), codec.dump(job.fetch(:payload, ""), "jobs[#{at}].payload"), score(job[:score], at), moment, time,
       retry_count(job[:retry_count], at), on_waiting(job[:on_waiting], at), context(job[:context], at)]
    end

    def id(job, at)
      raise Invalid, "jobs[#{at}]: id is missing" unless job.key?(:id)

      Jobs.id_text(job[:id]) { |value| refuse(at, "id", "a String, Symbol or Integer", value) }
    end

    # The text of an id; yields what cannot be one.
    def id_text(value)
      case value
      when String then value
      when Symbol then value.name
      when Integer then value.to_s
      else yield value
      end
    end

    # @return [Array<String>] of ids that an operator gives
    def id_texts(ids)
      raise Invalid, "ids must be an Array, not a #{ids.class}" unless ids.is_a?(Array)

      ids.each_with_index.map do |id, at|
        id_text(id) { |value| Check.refuse("ids[#{at}]", "a String, Symbol or Integer", value) }
      end
    end

    def score(score, at)
      return if score.nil?
      return score.to_f if score.is_a?(Numeric) && score.real?

      refuse(at, "score", "a number", score)
    end

    def due(job, at)
      given = %i[perform_in perform_at delay].reject { |key| job[key].nil? }
      raise Invalid, "jobs[#{at}]: #{given.join(" and ")} exclude each other" if given.size > 1

      case given.first
      when nil then [NOW, 0.0]
      when :delay then [DELAY, delay(job[:delay], at)]
      else [AT, unix_time(job[given.first], at, given.first)]
      end
    end

    def delay(value, at)
      value.is_a?(Numeric) && value.real? ? value.to_f : refuse(at, "delay", "a number of seconds", value)
    end

    def unix_time(value, at, key)
      return value.to_f if value.is_a?(Time) || (value.is_a?(Numeric) && value.real?)
      return value.to_time.to_f if defined?(Date) && value.is_a?(Date)

      refuse(at, key, "a Time or a number of Unix seconds", value)
    end

    def retry_count(count, at)
      return -1 if count.nil?
      return count if count.is_a?(Integer) && count >= -1

      refuse(at, "retry_count", "an Integer of -1 or more", count)
    end

    def on_waiting(word, at)
      word && Check.word("jobs[#{at}]: on_waiting", word, ON_WAITING).name
    end

    def context(map, at)
      return if map.nil?

      refuse(at, "context", "a Hash of Strings", map) unless map.is_a?(Hash)
      map.each do |key, value|
        text = value.is_a?(String) || value.is_a?(Symbol)
        raise Invalid, "jobs[#{at}].context[#{key.inspect}]: must be a String, not a #{value.class}" unless text
      end
      Native.dump(map, "jobs[#{at}].context") unless map.empty?
    end

    def refuse(at, key, rule, value) = Check.refuse("jobs[#{at}]: #{key}", rule, value)
  end
  private_constant :Jobs
end
