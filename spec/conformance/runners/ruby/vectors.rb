# frozen_string_literal: true

module Conformance
  # A row of a vector file: each method gives what is wrong with it.
  module Vectors
    NATIVE = Seriatim.module_eval { const_get(:Native) }

    module_function

    def shard_of(row, _redis)
      same(row["shard"], NATIVE.shard_of(Values.bytes(row["id"]), row["shards_count"]))
    end

    def keys(row, redis)
      redis.flush
      Seriatim.namespace = Values.bytes(row["namespace"])
      Seriatim.redis = redis.url
      Recorder.worker("keys", "name" => row["queue"], "shards_count" => row["shards_count"]).perform_async([{ id: Values.bytes(row["id"]) }])
      same(row["keys"].map(&:b), Conformance.keys(redis).map(&:b))
    end

    def json(row, _redis)
      value = row.key?("double") ? [row["double"]].pack("H*").unpack1("G") : NATIVE.load(Values.bytes(row["text"]))
      text = NATIVE.dump(value, "payload")
      return ["it was not refused, but written as #{text}"] if row["refused"]

      same(row["canonical"], text) + same(row.fetch("type", value.class.name.downcase), value.class.name.downcase)
    rescue Seriatim::Invalid, Seriatim::Undecodable => e
      row["refused"] ? [] : ["#{e.class}: #{e.message}"]
    end

    def back_off(row, _redis)
      worker = Module.new.extend(Seriatim::Worker)
      samples = Array.new(1000) { worker.retry_in(row["retry_count"]) }
      same((row["min"]..row["max"]).step(row["step"]).to_a, samples.uniq.sort)
    end

    def split(row, _redis)
      Seriatim.threads_per_node = row["threads"]
      shards = Array.new(row["shards"]) { |index| Seriatim::Shard.new(nil, index) }
      splitter = row["splitter"] == "default" ? Seriatim.build_default_splitter : Seriatim.build_by_node_splitter(row["nodes"], row["node"])
      same(row["groups"], splitter.call(shards).map { |group| group.map(&:index) })
    end

    def same(wanted, found) = wanted == found ? [] : ["it is #{found.inspect}, not #{wanted.inspect}"]
  end
end
