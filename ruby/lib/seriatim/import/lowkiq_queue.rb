# frozen_string_literal: true

module Seriatim
  module Import
    # A queue of Lowkiq in its Redis. Records leave it in two steps: a script takes payloads out of Lowkiq's keys and appends them, with a
    # sequence that rises, to the list `PREFIX:seriatim:staged`; once they have been added elsewhere, they are removed from there. So
    # whoever dies between the steps leaves nothing that cannot be found and known again.
    # @api private
    class LowkiqQueue
      # Of one id. kind: as in KINDS; time, retry_count: as Lowkiq had them; payloads: [[bytes, score]].
      Record = Struct.new(:sequence, :kind, :id, :time, :retry_count, :error, :payloads, :bytes)

      KINDS = %i[waiting dead in_process orphan dead_orphan].freeze
      IDS = 100 # that a call of a script looks at

      # Appends to the staged records: at most 250 payloads, or 256 KiB, of an id in one record, the lowest scores first. Each call of
      # a script stages some 256 KiB at most, or one record.
      LIBRARY = <<~LUA
        local P, NOW, call, pack = ARGV[1] .. ':', tonumber(ARGV[2]), redis.call, struct.pack
        local PORTION, BYTES = 250, 262144
        local taken, empty, staged_bytes = 0, 0, 0
        local function number(text, missing) return tonumber(text or missing) or missing end
        local function full() return staged_bytes >= BYTES end
        local function next_sequence()
          local sequence = math.max(number(call('GET', P .. 'seriatim:sequence'), 0) + 1, NOW)
          call('SET', P .. 'seriatim:sequence', string.format('%.0f', sequence))
          return sequence
        end
        local function some_payloads(key)
          local out, bytes = {}, 0
          while #out < PORTION do
            local found = call('ZRANGE', key, #out, #out, 'WITHSCORES')
            if not found[1] or out[1] and bytes + #found[1] > BYTES then break end
            bytes = bytes + #found[1]
            out[#out + 1] = pack('<dI4', tonumber(found[2]), #found[1]) .. found[1]
          end
          return out, bytes
        end
        -- Is nothing left of the payloads of the id?
        local function stage(kind, id, time, retry, err, key)
          taken = taken + 1
          local out, bytes = some_payloads(key)
          if not out[1] then empty = empty + 1 return true end
          retry = math.max(-1, math.min(2147483647, math.floor(number(retry, -1))))
          call('RPUSH', P .. 'seriatim:staged', pack('<dBdi4I4I4I4', next_sequence(), kind, number(time, 0), retry, #id, #(err or ''), #out)
            .. id .. (err or '') .. table.concat(out))
          call('ZREMRANGEBYRANK', key, 0, #out - 1)
          staged_bytes = staged_bytes + bytes
          return call('EXISTS', key) == 0
        end
        local function forget(id)
          call('ZREM', P .. 'all_ids_lex', id)
          call('ZREM', P .. 'all_ids_scored_by_perfrom_in', id)
          call('ZREM', P .. 'all_ids_scored_by_retry_count', id)
          call('HDEL', P .. 'errors', id)
        end
        local function stage_waiting(kind, id, key)
          return stage(kind, id, call('ZSCORE', P .. 'all_ids_scored_by_perfrom_in', id), call('ZSCORE', P .. 'all_ids_scored_by_retry_count', id),
            call('HGET', P .. 'errors', id), key)
        end
        local function forget_dead(id)
          call('ZREM', P .. 'morgue:all_ids_lex', id)
          call('ZREM', P .. 'morgue:all_ids_scored_by_updated_at', id)
          call('HDEL', P .. 'morgue:errors', id)
        end
        local function stage_dead(kind, id)
          return stage(kind, id, call('ZSCORE', P .. 'morgue:all_ids_scored_by_updated_at', id), -1, call('HGET', P .. 'morgue:errors', id), P .. 'morgue:payloads:' .. id)
        end
      LUA

      # Each begins with the library, and returns {ids that were looked at, those of them that had no payload}. ARGV: 1 prefix, 2 now in
      # microseconds, 3 how many ids, 4.. its own.
      SCRIPTS = {
        waiting: <<~LUA, # 4 the index whose ids are taken. Those that the index of all ids lacks are orphans
          local ids = call('ZRANGE', P .. ARGV[4], 0, ARGV[3] - 1)
          for i = 1, #ids do
            if full() then break end
            local kind = call('ZSCORE', P .. 'all_ids_lex', ids[i]) and 0 or 3
            if stage_waiting(kind, ids[i], P .. 'payloads:' .. ids[i]) then forget(ids[i]) end
          end
          return {taken, empty}
        LUA
        in_process: <<~LUA, # 4 the shard
          local S = ARGV[4]
          local times, retries, errors = P .. 'processing:ids_with_perform_in:' .. S, P .. 'processing:ids_with_retry_count:' .. S, P .. 'processing:errors:' .. S
          local ids = call('HKEYS', times)
          for i = 1, math.min(#ids, ARGV[3]) do
            local id = ids[i]
            if full() then break end
            if stage(2, id, call('HGET', times, id), call('HGET', retries, id), call('HGET', errors, id), P .. 'processing:payloads:' .. id) then
              call('HDEL', times, id) call('HDEL', retries, id) call('HDEL', errors, id)
            end
          end
          if call('HLEN', times) == 0 then
            call('DEL', retries, errors)
            call('HDEL', P .. 'processing_length_by_shard', S)
          end
          return {taken, empty}
        LUA
        dead: <<~LUA,
          local ids = call('ZRANGE', P .. 'morgue:all_ids_lex', 0, ARGV[3] - 1)
          for i = 1, #ids do
            if full() then break end
            if stage_dead(1, ids[i]) then forget_dead(ids[i]) end
          end
          return {taken, empty}
        LUA
        orphan: <<~LUA, # 4 payloads, processing:payloads or morgue:payloads; 5 the id, 6.. shards. Payloads that no index names
          local part, id = ARGV[4], ARGV[5]
          if part == 'morgue:payloads' then
            if call('ZSCORE', P .. 'morgue:all_ids_lex', id) then return {0, 0} end
            if stage_dead(4, id) then forget_dead(id) end
            return {taken, empty}
          end
          for i = 6, part == 'payloads' and 0 or #ARGV do
            if call('HEXISTS', P .. 'processing:ids_with_perform_in:' .. ARGV[i], id) == 1 then return {0, 0} end
          end
          local waits = call('ZSCORE', P .. 'all_ids_lex', id)
          if part == 'payloads' and waits then return {0, 0} end
          if stage_waiting(3, id, P .. part .. ':' .. id) and not waits then forget(id) end
          return {taken, empty}
        LUA
        sweep: <<~LUA, # 4 the shard. Ids in a shard that do not wait any more
          local shard = P .. 'ids_scored_by_perform_in:' .. ARGV[4]
          local ids = call('ZRANGE', shard, 0, ARGV[3] - 1)
          for i = 1, #ids do
            if not call('ZSCORE', P .. 'all_ids_lex', ids[i]) then taken = taken + call('ZREM', shard, ids[i]) end
          end
          return {taken, 0}
        LUA
        release: <<~LUA, # 4 a sequence: the staged records up to it have been added elsewhere
          for _ = 1, ARGV[3] do
            local head = call('LINDEX', P .. 'seriatim:staged', 0)
            if not head or struct.unpack('<d', head) > tonumber(ARGV[4]) then break end
            call('LPOP', P .. 'seriatim:staged')
            taken = taken + 1
          end
          return {taken, 0}
        LUA
        refuse: <<~LUA # 4 the sequence of the first staged record, which cannot be added: it is kept in a list of its own
          local head = call('LINDEX', P .. 'seriatim:staged', 0)
          if head and struct.unpack('<d', head) == tonumber(ARGV[4]) then
            call('RPUSH', P .. 'seriatim:refused', head)
            call('LPOP', P .. 'seriatim:staged')
            taken = 1
          end
          return {taken, 0}
        LUA
      }.transform_values { |script| LIBRARY + script }.freeze
      private_constant :LIBRARY, :SCRIPTS

      # @return [String] what its keys begin with
      attr_reader :prefix

      # @param redis [Redis]
      # @param name [String] of the queue
      # @param below [String, nil] what a Redis::Namespace has put in front of Lowkiq's keys
      def initialize(redis, name, below = nil)
        @redis = redis
        @prefix = "#{below}lowkiq:A:v1:#{name}"
      end

      # A text that names this queue in this Redis for as long as it lives there.
      def source
        @source ||= begin
          @redis.call("SETNX", key("seriatim:source"), "lowkiq-#{SecureRandom.hex(8)}")
          @redis.call("GET", key("seriatim:source"))
        end
      end

      # @return [Array(Integer, Integer)] ids that the script has looked at, and those of them that had no payload
      def run(script, *arguments, limit: IDS)
        @redis.call("EVAL", SCRIPTS.fetch(script), 0, @prefix, (Time.now.to_r * 1_000_000).to_i, limit, *arguments)
      end

      # @return [Array<Record>] the first ones that are staged
      def staged = @redis.call("LRANGE", key("seriatim:staged"), 0, IDS - 1).map { |bytes| record(bytes) }

      # @return [Integer] how many records could not be added so far
      def refused = @redis.call("LLEN", key("seriatim:refused"))

      # What follows the prefix in the names of the keys that begin with it.
      # @yieldparam rest [String]
      def each_key
        cursor = "0"
        loop do
          cursor, keys = @redis.call("SCAN", cursor, "MATCH", "#{key("").gsub(/[\\*?\[\]]/) { |char| "\\#{char}" }}*", "COUNT", 1000)
          keys.each { |name| yield name.byteslice(@prefix.bytesize + 1..) }
          break if cursor == "0"
        end
      end

      private

      def key(rest) = "#{@prefix}:#{rest}"

      def record(bytes)
        sequence, kind, time, retries, id_size, error_size, count = bytes.unpack("ECEl<L<L<L<")
        at = 33
        id, error = [id_size, error_size].map { |size| bytes.byteslice(at, size).tap { at += size } }
        payloads = Array.new(count) do
          score, size = bytes.unpack("EL<", offset: at)
          at += 12 + size
          [bytes.byteslice(at - size, size), score]
        end
        Record.new(sequence, KINDS.fetch(kind), id, time, retries, error, payloads)
      end
    end
  end
end
