# frozen_string_literal: true

require_relative "text"

# Plots as SVG, readable in light and dark: bars and dots on a scale of powers of ten, and lines.
class Plot
  WIDTH = 760
  LEFT = 170
  RIGHT = 140 # for the figures beside the bars
  TOP = 62
  ROW = 24
  STYLE = <<~CSS
    svg{--back:#fff;--ink:#1f2328;--dim:#656d76;--grid:#e4e7eb;--ours:#1f6feb;--ours2:#8cb8fb;--peer:#7d8590;--peer2:#c3c8ce;--c2:#bf5b00;--c3:#1a7f37;--c4:#8250df;--c5:#bf3989;--c6:#1b7c83}
    @media(prefers-color-scheme:dark){svg{--back:#0d1117;--ink:#e6edf3;--dim:#9198a1;--grid:#262c36;--ours:#4d94ff;--ours2:#264f8c;--peer:#9198a1;--peer2:#4a525c;--c2:#f0883e;--c3:#3fb950;--c4:#b083f0;--c5:#f778ba;--c6:#39c5cf}}
    text{font:13px system-ui,sans-serif;fill:var(--ink)}.title{font-size:16px;font-weight:600}.dim{fill:var(--dim);font-size:12px}.end{text-anchor:end}.mid{text-anchor:middle}
    .grid{stroke:var(--grid)}.ours{fill:var(--ours)}.ours2{fill:var(--ours2)}.peer{fill:var(--peer)}.peer2{fill:var(--peer2)}
    .back{fill:var(--back)}.rim{stroke:var(--back)}.span{stroke:var(--dim);stroke-width:2}.line{fill:none;stroke-width:2}
  CSS
  COLORS = %w[ours c2 c3 c4 peer c5 c6].freeze

  # @param rows [Array] label, ours?, values (one for each of the kinds), text
  # @param kinds [Array<String>] what the values of a row are
  def self.bars(title, unit, rows, kinds) = new(title, unit, rows.flat_map { |row| row[2] }).bars(rows, kinds)

  # @param rows [Array] as of bars; a dot for each value, from first to last a line
  def self.dots(title, unit, rows, kinds) = new(title, unit, rows.flat_map { |row| row[2] }).dots(rows, kinds)

  def initialize(title, unit, values)
    @title = title
    @unit = unit
    @low = Math.log10(values.min).floor
    @high = Math.log10(values.max).ceil
    @high += 1 if @high == @low
    @marks = []
  end

  def bars(rows, kinds)
    height = ROW / kinds.size - 3
    each_row(rows) do |(_, ours, values, _), top|
      values.each_with_index { |value, at| bar(value, top + at * (height + 1), height, "#{ours ? "ours" : "peer"}#{at + 1 if at.positive?}") }
    end
    kinds.each_with_index { |kind, at| legend(at, kind, "ours#{at + 1 if at.positive?}") } if kinds.size > 1
    svg(rows.size)
  end

  def dots(rows, kinds)
    each_row(rows) do |(_, ours, values, _), top|
      middle = top + ROW / 2 - 2
      @marks << %(<line class="span" x1="#{x(values.first)}" x2="#{x(values.last)}" y1="#{middle}" y2="#{middle}"/>)
      values.each_with_index { |value, at| dot(x(value), middle, at, ours ? "ours" : "peer") }
    end
    kinds.each_with_index { |kind, at| dot(legend(at, kind), TOP - 24, at, "ours") }
    svg(rows.size)
  end

  private

  def each_row(rows)
    rows.each_with_index do |row, at|
      top = TOP + at * ROW
      @marks << %(<text class="end" x="#{LEFT - 8}" y="#{top + 15}">#{escape(row[0])}</text>)
      yield row, top
      @marks << %(<text x="#{x(row[2].max) + 8}" y="#{top + 15}">#{escape(row[3])}</text>)
    end
  end

  def bar(value, top, height, color)
    @marks << %(<rect class="#{color}" x="#{LEFT}" y="#{top + 2}" width="#{(x(value) - LEFT).round(1)}" height="#{height}" rx="2"/>)
  end

  # The later the kind, the smaller the dot.
  def dot(left, middle, kind, color)
    @marks << %(<circle class="#{color} rim" cx="#{left}" cy="#{middle}" r="#{[6, 4.5, 3][kind]}" />)
  end

  # @return [Integer] where its sign is
  def legend(place, text, color = nil)
    left = LEFT + place * 150
    @marks << %(<rect class="#{color}" x="#{left - 6}" y="#{TOP - 30}" width="12" height="12" rx="2"/>) if color
    @marks << %(<text class="dim" x="#{left + 12}" y="#{TOP - 20}">#{escape(text)}</text>)
    left
  end

  def x(value) = (LEFT + (Math.log10(value) - @low) / (@high - @low) * (WIDTH - LEFT - RIGHT)).round(1)

  def svg(rows)
    bottom = TOP + rows * ROW + 4
    Plot.frame(@title, bottom + 40, [*axis(bottom), *@marks])
  end

  def axis(bottom)
    powers = (@low..@high).flat_map do |power|
      at = x(10.0**power)
      [%(<line class="grid" x1="#{at}" x2="#{at}" y1="#{TOP - 4}" y2="#{bottom}"/>),
       %(<text class="dim mid" x="#{at}" y="#{bottom + 15}">#{power.negative? ? 10.0**power : Text.thousands(10**power)}</text>)]
    end
    powers << %(<text class="dim mid" x="#{(LEFT + WIDTH - RIGHT) / 2}" y="#{bottom + 32}">#{escape(@unit)}, each line ten times the one before</text>)
  end

  def escape(text) = Plot.escape(text)

  class << self
    def frame(title, height, marks)
      <<~SVG
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 #{WIDTH} #{height}" width="#{WIDTH}" height="#{height}" role="img">
        <title>#{escape(title)}</title>
        <style>#{STYLE.delete("\n")}</style>
        <rect width="#{WIDTH}" height="#{height}" class="back" rx="6"/>
        <text class="title" x="16" y="25">#{escape(title)}</text>
        #{marks.join("\n")}
        </svg>
      SVG
    end

    def escape(text) = text.to_s.gsub("&", "&amp;").gsub("<", "&lt;").gsub(">", "&gt;")
  end
end
