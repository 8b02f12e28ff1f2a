# frozen_string_literal: true

# How pages and programs write numbers and tables.
module Text
  module_function

  # Whole, with a comma between thousands.
  def thousands(number) = number.round.to_s.reverse.scan(/\d{1,3}/).join(",").reverse

  # A table of Markdown.
  def table(head, rows)
    widths = [head, *rows].transpose.map { |column| column.map { |cell| cell.to_s.size }.max }
    lines = [head, widths.map { |width| "-" * width }, *rows].map do |row|
      "| #{row.zip(widths).map { |cell, width| cell.to_s.ljust(width) }.join(" | ")} |"
    end
    "#{lines.join("\n")}\n"
  end
end
