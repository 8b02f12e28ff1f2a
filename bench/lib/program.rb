# frozen_string_literal: true

require "json"
require "timeout"
require_relative "contestant"

# A measurement with a program of its own; the last line that it prints is a JSON object of title, columns
# and rows; maybe notes, and goals: text, limit (at most), measured (null: it was not).
module Program
  NAMES = %w[ceiling growth fair trickle start].freeze
  PATIENCE = Hash.new(400).merge("trickle" => 6 * 3600, "start" => 3600).freeze # seconds

  module_function

  # @return [Hash{String=>Object}]
  def run(name)
    path = "#{Contestant::ROOT}/bench/#{name}"
    raise "there is no bench/#{name}" unless File.exist?(path)

    figures = JSON.parse(output(path, PATIENCE[name]).lines.last.to_s)
    raise "bench/#{name} printed no columns and rows" unless figures["columns"] && figures["rows"]

    figures
  end

  def output(path, patience)
    IO.popen([path], pgroup: true) do |io|
      Timeout.timeout(patience) { io.read }
    rescue Timeout::Error
      Process.kill(:TERM, -io.pid)
      raise
    end
  end
end
