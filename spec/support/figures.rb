# frozen_string_literal: true

require "json"

# How often a fault is made, and what came of it. SOAK=1 asks for the counts of the long run; FIGURES names the file to
# which each figure is appended as a line of JSON: fault, what, value, soak.
module Figures
  SOAK = ENV["SOAK"] == "1"

  module_function

  # @return [Numeric] the second in the long run, otherwise the first
  def count(short, soak) = SOAK ? soak : short

  # @param fault [String] "F1"
  # @param what [String] what was counted
  # @param value [Numeric, String]
  def note(fault, what, value)
    puts format("    %-4s %-52s %s", fault, what, value)
    path = ENV["FIGURES"] or return
    File.write(path, "#{JSON.generate(fault: fault, what: what, value: value, soak: SOAK)}\n", mode: "a")
  end
end
