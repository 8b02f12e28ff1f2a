# frozen_string_literal: true

require "fileutils"
require "tmpdir"
require_relative "entrants"
require_relative "environment"
require_relative "facts"
require_relative "measured_redis"
require_relative "missing"
require_relative "settings"

# The course of a benchmark with a page of its own, which BENCH_ONLY can limit to some systems.
module Course
  module_function

  # @param name [String] of the page
  # @param names [Array<String>] the systems that take part
  # @param measuring [Class] whose `new(contestants, redis, missing).run` measures
  # @param page [Class] whose `new(measuring, missing, facts)` has `to_s`, `plots` and `summary`
  def run(name, names, measuring, page)
    $stdout.sync = true
    redis = MeasuredRedis.new
    missing = Missing.new
    facts = Facts.all(redis)
    Dir.mktmpdir("seriatim-bench-") do |folder|
      contestants = Entrants.new(redis, folder, missing, facts).enter(wanted(names))
      measure(measuring.new(contestants, redis, missing), missing) { |measured| write(name, page.new(measured, missing, facts)) }
    end
  ensure
    redis&.remove
  end

  # All, if BENCH_ONLY has none of them: it is bench/run's, too.
  def wanted(names) = (names & Settings::ONLY).then { |chosen| chosen.empty? ? names : chosen }

  # What was measured until then is written, whatever ends it.
  def measure(measuring, missing)
    measuring.run
  rescue Exception => e # also signals
    missing.note("all that would have followed: the run ended by #{e.class}")
    raise
  ensure
    yield measuring
  end

  def write(name, page)
    FileUtils.mkdir_p(Settings::PAGES)
    page.plots.each { |plot, svg| File.write("#{Settings::PAGES}/#{plot}", svg) }
    File.write("#{Settings::PAGES}/#{name}.md", page.to_s)
    puts page.summary, page.summary.to_json
  end
end
