# frozen_string_literal: true

require "securerandom"
require "seriatim/import/redis"
require "seriatim/import/lowkiq_queue"

module Seriatim
  # What reads the data of other queue systems.
  # @api private
  module Import
    # Moves a queue of Lowkiq, whose servers have stopped, into a queue of Seriatim. It may be ended at any moment and begun again, or run twice
    # at once: each record is added once, in the order in which it was taken.
    class Lowkiq
      LONGEST = 100 * 365 * 86_400 # seconds from now; a later time becomes this one
      MAX_ERROR = 65_536
      IDLE = 1 # seconds between two looks, with --watch
      COUNTS = %i[waiting retrying in_process dead orphans without_payload payloads known refused].freeze
      private_constant :LONGEST, :MAX_ERROR, :IDLE

      # @return [Hash{Symbol => Integer}] records by kind; payloads; known: records that an earlier import had added; without_payload: ids in
      #   an index of Lowkiq that have no payload
      attr_reader :counts

      # @return [Array<String>] why records were refused, the first ones
      attr_reader :reasons

      # @param queue [LowkiqQueue]
      # @param worker [Worker] of a queue that exists
      # @param convert [#call, nil] the bytes of a payload in Lowkiq -> those of the worker; nil: they are the same
      # @param progress [#call] is called with the importer after each step
      def initialize(queue, worker, convert: nil, progress: proc {})
        @queue = queue
        @worker = worker
        @convert = convert
        @progress = progress
        @counts = COUNTS.to_h { |name| [name, 0] }
        @reasons = []
        @stopped = false
      end

      # Another connection to the same queue of Lowkiq.
      attr_writer :queue

      # Takes everything that is there.
      def run
        forward
        shards, orphans = look
        # What was in process is older than what waits.
        shards.each { |shard| drain(:in_process, shard) }
        take_orphans(orphans, "processing:payloads", shards)
        take_new
        take_orphans(orphans, "payloads", shards)
        take_orphans(orphans, "morgue:payloads", shards)
        shards.each { |shard| nil until @queue.run(:sweep, shard, limit: 1000).first.zero? }
      end

      # Forwards what producers go on pushing, until {#stop}.
      def watch
        until @stopped
          take_new
          sleep(IDLE) unless @stopped
        end
      end

      # May be called by a signal handler.
      def stop = @stopped = true

      private

      def take_new
        drain(:waiting, "all_ids_lex")
        drain(:waiting, "all_ids_scored_by_perfrom_in")
        drain(:dead)
      end

      # The shards of Lowkiq, and the ids of payloads that may be orphans.
      def look
        shards = []
        orphans = Hash.new { |hash, part| hash[part] = [] }
        @queue.each_key do |rest|
          shards << rest[/\A(?:processing:)?(?:ids_scored_by_perform_in|ids_with_perform_in):(\d+)\z/, 1]
          part = %w[processing:payloads morgue:payloads].find { |name| rest.start_with?("#{name}:") }
          orphans[part] << rest.byteslice(part.size + 1..) if part
        end
        [shards.compact.uniq.sort_by(&:to_i), orphans]
      end

      # Until a script finds no id.
      def drain(script, *arguments)
        loop do
          looked_at, empty = @queue.run(script, *arguments)
          @counts[:without_payload] += empty
          forward
          break if looked_at.zero? || @stopped
        end
      end

      # Payloads that waited and are not waited for were found by no index: those that are left now.
      def take_orphans(orphans, part, shards)
        ids = part == "payloads" ? [].tap { |found| @queue.each_key { |rest| found << rest.byteslice(9..) if rest.start_with?("payloads:") } } : orphans[part]
        ids.each do |id|
          nil until @queue.run(:orphan, part, id, *shards).first.zero? || !forward.positive?
        end
      end

      # Adds what is staged.
      # @return [Integer] how many records
      def forward
        total = 0
        until (records = @queue.staged).empty?
          records.each { |record| add(record) }
          @queue.run(:release, format("%.0f", records.last.sequence), limit: records.size)
          total += records.size
          @progress.call(self)
        end
        total
      end

      def add(record)
        text = pack(record)
        added = Pool.current.with { |connection| connection.action(@worker.queue_settings, "import", [record.id, text]) }
        added == 1 ? count(record) : @counts[:known] += 1
      rescue Invalid => e
        raise if @worker.queue.shards_count.zero? # the queue was deleted meanwhile: nothing is wrong with the record

        refuse(record, e)
      end

      def refuse(record, error)
        sequence = format("%.0f", record.sequence)
        @queue.run(:release, format("%.0f", record.sequence - 1))
        @queue.run(:refuse, sequence)
        @counts[:refused] += 1
        @reasons << "id #{Log.utf8(record.id[0, 60]).inspect}: #{error.message}" if @reasons.size < 10
      end

      def count(record)
        name = { in_process: :in_process, dead: :dead, waiting: record.retry_count.negative? ? :waiting : :retrying }.fetch(record.kind, :orphans)
        @counts[name] += 1
        @counts[:payloads] += record.payloads.size
      end

      # As core/scripts/client/import.lua takes it.
      def pack(record)
        error = record.error.byteslice(0, MAX_ERROR)
        source = @queue.source
        kind = %i[dead dead_orphan].include?(record.kind) ? "d" : "w"
        head = [kind, record.sequence, (time(record.time) * 1_000_000).floor, record.retry_count, source.bytesize].pack("aEEl<L<")
        head << source << [error.bytesize].pack("L<") << error << [record.payloads.size].pack("L<")
        record.payloads.each do |bytes, score|
          bytes = converted(bytes)
          head << [score.clamp(-Float::MAX, Float::MAX), bytes.bytesize].pack("EL<") << bytes
        end
        head
      end

      # Lowkiq's `perform_all_jobs_now` writes 0.
      def time(seconds)
        now = Time.now.to_f
        seconds.positive? ? seconds.clamp(0, now + LONGEST) : now
      end

      def converted(bytes)
        bytes = @convert.call(bytes) if @convert
        most = Native::MAX_PAYLOAD
        bytes.bytesize <= most ? bytes : raise(Invalid, "a payload has #{bytes.bytesize} bytes; it must have at most #{most}")
      rescue StandardError, ScriptError => e
        raise e.is_a?(Invalid) ? e : Invalid.new("its payload cannot be converted: #{Log.brief(e)}")
      end
    end
  end
  private_constant :Import
end
