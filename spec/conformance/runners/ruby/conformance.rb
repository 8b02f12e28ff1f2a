# frozen_string_literal: true

# conformance.rb - runs spec/conformance/vectors and scenarios through the gem's public API. See spec/conformance/README.md.
#
#   ruby -I ruby/lib spec/conformance/runners/ruby/conformance.rb [FILE or part of a NAME...]
require "json"
require "seriatim"
require_relative "../../../support/redis_server"

module Conformance
  SPEC = File.expand_path("../..", __dir__)

  # Keys that come and go by time and not by the steps: nodes, remembered pushes, and the history that a running server writes.
  TIMED = /:\{\/nodes\}:|:push:|\}:history\z/n

  # The keys that the step keys compares.
  def self.keys(redis) = redis.call("KEYS", "*").reject { |key| key.b.match?(TIMED) }.sort_by(&:b)
end

%w[report values recorder run sets scenario vectors].each { |part| require_relative part }

module Conformance
  # All files that the words select.
  class Suite
    def initialize(words)
      @words = words
      @report = Report.new
      @redis = ENV.key?("CONFORMANCE_REDIS") ? RedisElsewhere.new(*ENV.values_at("CONFORMANCE_REDIS", "CONFORMANCE_URL")) : RedisServer.new
    end

    def call
      settings
      each_file("vectors") { |name, content| vectors(name, content["rows"]) }
      each_file("scenarios") { |name, content| scenarios(name, content["scenarios"]) }
      @report.finish
    ensure
      @redis.remove
    end

    private

    def settings
      Seriatim.logger = Seriatim::Log.default(ENV["CONFORMANCE_LOG"] ? $stderr : File.open(File::NULL, "w"))
      Seriatim.poll_interval = 5
      Seriatim.lease_time = 10
    end

    def each_file(folder)
      Dir[File.join(SPEC, folder, "*.json")].sort.each { |path| yield File.basename(path, ".json"), JSON.parse(File.read(path)) }
    end

    def wanted?(file, name = nil) = @words.empty? || @words.any? { |word| word == file || name&.include?(word) }

    def vectors(file, rows)
      return unless wanted?(file)

      @report.scenario
      rows.each_with_index { |row, at| @report.check("#{file}, row #{at + 1}") { Vectors.public_send(file, row, @redis) } }
    end

    def scenarios(file, list)
      list.each do |scenario|
        next unless wanted?(file, scenario["name"])

        @report.scenario
        Scenario.new(file, scenario, @redis, @report).run
      end
    end
  end
end

exit(Conformance::Suite.new(ARGV).call)
