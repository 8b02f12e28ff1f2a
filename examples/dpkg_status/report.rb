# frozen_string_literal: true

# report.rb - the tables at the end, and whether all is well.
class Report
  # @param brief [Boolean] shows only packages that differ
  def initialize(log, checker, brief: false)
    @log = log
    @checker = checker
    @brief = brief
  end

  def print(output = $stdout)
    packages(output)
    figures(output)
    output.puts "", verdict
  end

  def good? = unequal.empty? && @checker.lost.zero? && @checker.out_of_order.zero? && @checker.messages == @log.lines.size

  private

  def packages(output)
    shown = @brief ? @log.statuses.slice(*unequal) : @log.statuses
    return if shown.empty?

    width = shown.keys.map(&:size).max
    output.puts "", format("%-#{width}s  %-16s %s", "package", "Seriatim", "dpkg-query")
    shown.each do |package, status|
      output.puts format("%-#{width}s  %-16s %-16s%s", package, ours[package], status, ("  <- differs" if unequal.include?(package))).rstrip
    end
    @log.replaced.each { |package| output.puts "#{package}: not compared, another architecture's took its place" }
  end

  def figures(output)
    output.puts ""
    { "messages" => @checker.messages, "packages" => @log.packages.size, "runs" => @checker.runs,
      "folded" => @checker.folded, "retried" => @checker.retried, "redelivered" => @checker.redelivered,
      "posted again" => @checker.posted_again.nonzero?, "out of order" => @checker.out_of_order, "lost" => @checker.lost,
      "status equal" => "#{@log.statuses.size - unequal.size} of #{@log.statuses.size}" }
      .compact.each { |name, value| output.puts format("%-14s%s", name, value) }
  end

  def verdict
    equal = unequal.empty? ? "all equal" : "#{unequal.size} NOT EQUAL"
    "#{equal}, #{@checker.lost} lost, #{@checker.out_of_order} out of order"
  end

  def ours = @ours ||= @checker.final_states

  def unequal = @unequal ||= @log.statuses.keys.reject { |package| ours[package] == @log.statuses[package] }
end
