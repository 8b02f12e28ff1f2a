# frozen_string_literal: true

require_relative "from_c"
require_relative "from_lua"
require_relative "from_node"
require_relative "from_python"
require_relative "from_ruby"

# Who takes part in a run: those that are there or can be installed. Who is not is said on the page.
class Entrants
  SIDES = [FromRuby, FromPython, FromLua, FromC, FromNode].freeze
  # @return [Array<String>]
  NAMES = SIDES.flat_map(&:names).freeze

  # @param facts [Hash{String=>Object}] gets the versions
  def initialize(redis, folder, missing, facts)
    @redis = redis
    @folder = folder
    @missing = missing
    @facts = facts
  end

  # @param names [Array<String>] of NAMES
  # @return [Array<Contestant>] ours first
  def enter(names) = SIDES.flat_map { |side| of(side, side.names & names) }.sort_by { |contestant| contestant.ours? ? 0 : 1 }

  private

  def of(side, wanted)
    there, absent = wanted.partition { |name| @missing.attempt("#{name}, set-up") { side.install(name) } }
    absent.each { |name| @missing.note("#{name}: not installed and not to be had") }
    @facts.merge!(@missing.attempt("versions of #{there.join(", ")}") { side.facts } || {}) if there.any?
    there.filter_map { |name| @missing.attempt("#{name}, trial") { side.contestant(name, @redis, @folder) } }
  end
end
