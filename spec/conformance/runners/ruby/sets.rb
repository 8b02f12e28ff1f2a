# frozen_string_literal: true

module Conformance
  # The step ick: calls on two-phase commit sets, each by the object that the step names.
  class Sets
    def initialize(values)
      @values = values
      @objects = {}
    end

    # What is wrong, as a list of texts.
    def run(step)
      object = object_of(step)
      return compare(step, call(object, step)) unless step.key?("calls")

      found = object.pipelined { |pipeline| step["calls"].each { |each| call(pipeline, each) } }
      step["calls"].zip(found).flat_map { |each, value| compare(each, value) }
    end

    private

    def object_of(step)
      options = { consumer: step["as"], reserve_time: step["reserve_time"] }.compact
      @objects[step["object"] || step["as"]] ||= Seriatim::Ick.new(**options)
    end

    def call(object, step)
      name = Values.bytes(step.fetch("set", "k"))
      case step["call"]
      when "ickadd" then object.ickadd(name, pairs(step))
      when "ickcommit" then object.ickcommit(name, members(step))
      when "ickreserve" then object.ickreserve(name, step["size"], **step.slice("backwash").transform_keys(&:to_sym))
      when "ickexchange" then object.ickexchange(name, step["size"], members(step), **step.slice("backwash").transform_keys(&:to_sym))
      when "import" then object.import(name, from: step["from"])
      else object.public_send(step["call"], name)
      end
    end

    def pairs(step)
      return (1..step["numbers"]).flat_map { |n| [n, n.to_s] } if step.key?("numbers")

      step.fetch("pairs", []).flat_map { |score, member| [Values.number(score), Values.bytes(member)] }
    end

    def members(step)
      step.key?("numbers") ? (1..step["numbers"]).map(&:to_s) : step.fetch("members", []).map { |member| Values.bytes(member) }
    end

    def compare(step, found)
      step.key?("expect") ? @values.compare(wanted(step), found, step["call"]) : []
    end

    def wanted(step)
      expect = step["expect"]
      return expect unless %w[ickreserve ickexchange].include?(step["call"])
      return (1..expect["numbers"]).map { |n| [n.to_s, n] } if expect.is_a?(Hash)

      expect.map { |member, score| [Values.bytes(member), Values.number(score)] }
    end
  end
end
