# frozen_string_literal: true

require "json"
require "timeout"
require_relative "contestant"

# A measurement with a program of its own; the last line that it prints is a JSON object of title, columns
# and rows; maybe notes, and goals: text, limit (at most), measured.
module Program
  NAMES = %w[ceiling growth fair].freeze
  PATIENCE = 400 # seconds

  module_function

  # @return [Hash{String=>Object}]
  def run(name)
    path = "#{Contestant::ROOT}/bench/#{name}"
    raise "there is no bench/#{name}" unless File.exist?(path)

    figures = JSON.parse(output(path).lines.last.to_s)
    raise "bench/#{name} printed no columns and rows" unless figures["columns"] && figures["rows"]

    figures
  end

  def output(path)
    IO.popen([path], pgroup: true) do |io|
      Timeout.timeout(PATIENCE) { io.read }
    rescue Timeout::Error
      Process.kill(:TERM, -io.pid)
      raise
    end
  end
end
