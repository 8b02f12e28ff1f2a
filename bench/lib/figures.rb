# frozen_string_literal: true

require "json"

# What a program measured: a table for people, and the line of JSON that bench/run reads.
class Figures
  # @param goals [Array<Hash>] text, limit (at most), measured (nil: it was not)
  def initialize(title, columns, rows, notes: [], goals: [])
    @title = title
    @columns = columns
    @rows = rows
    @notes = notes
    @goals = goals
  end

  def to_s
    [@title, "", *table, "", *@notes, *@goals.map { |goal| verdict(goal) }].join("\n")
  end

  def to_json(*)
    JSON.generate("title" => @title, "columns" => @columns, "rows" => @rows, "notes" => @notes, "goals" => @goals)
  end

  private

  def table
    widths = [@columns, *@rows].transpose.map { |cells| cells.map { |cell| cell.to_s.size }.max }
    [@columns, *@rows].map { |row| [row.first.ljust(widths.first), *numbers(row, widths)].join("  ") }
  end

  def numbers(row, widths) = row.zip(widths).drop(1).map { |cell, width| cell.to_s.rjust(width) }

  def verdict(goal)
    return "#{goal[:text]}: not measured" unless goal[:measured]

    format("%<text>s: %<measured>.2f (at most %<limit>g) %<met>s", **goal, met: goal[:measured] <= goal[:limit] ? "met" : "NOT MET")
  end
end
