# frozen_string_literal: true

require_relative "plot"

# Lines over powers of ten, from zero upwards.
class LinePlot
  HEIGHT = 240
  LEFT = 60
  RIGHT = 190 # for the lines' names
  BOTTOM = Plot::TOP + HEIGHT
  NAME = 16 # pixels that a name needs

  # @param lines [Hash{String=>Array<Array(Float, Float)>}] name => points, at least two each
  def initialize(title, x_unit, y_unit, lines)
    @title = title
    @x_unit = x_unit
    @y_unit = y_unit
    @lines = lines
    points = lines.values.flatten(1)
    @powers = Math.log10(points.map(&:first).min).floor..Math.log10(points.map(&:first).max).ceil
    @step = nice(points.map(&:last).max / 4.0)
    @top = (points.map(&:last).max / @step).ceil * @step
  end

  def to_s = Plot.frame(@title, BOTTOM + 44, [*grid, *lines, *names])

  private

  # 1, 2 or 5 times a power of ten, not below.
  def nice(number)
    power = 10.0**Math.log10(number).floor
    power * [1, 2, 5, 10].find { |times| times * power >= number }
  end

  def grid
    [%(<text class="dim" x="16" y="#{Plot::TOP - 14}">#{Plot.escape(@y_unit)}</text>),
     *(0..(@top / @step).round).flat_map { |at| horizontal(at * @step) },
     *@powers.map { |power| %(<text class="dim mid" x="#{x(10**power)}" y="#{BOTTOM + 18}">#{Text.thousands(10**power)}</text>) },
     %(<text class="dim mid" x="#{(LEFT + Plot::WIDTH - RIGHT) / 2}" y="#{BOTTOM + 36}">#{Plot.escape(@x_unit)}</text>)]
  end

  def horizontal(value)
    [%(<line class="grid" x1="#{LEFT}" x2="#{Plot::WIDTH - RIGHT}" y1="#{y(value)}" y2="#{y(value)}"/>),
     %(<text class="dim end" x="#{LEFT - 8}" y="#{y(value) + 4}">#{format("%g", value.round(6))}</text>)]
  end

  def lines
    @lines.values.each_with_index.map do |points, at|
      %(<polyline class="line" style="stroke:var(--#{Plot::COLORS[at % Plot::COLORS.size]})" points="#{points.map { |(x, y)| "#{x(x)},#{y(y)}" }.join(" ")}"/>)
    end
  end

  # At the lines' ends, one above another where they are close.
  def names
    below = BOTTOM + NAME
    @lines.each_with_index.sort_by { |((_, points), _)| points.last.last }.map do |(name, points), at|
      below = [y(points.last.last) + 4, below - NAME].min
      color = Plot::COLORS[at % Plot::COLORS.size]
      %(<text style="fill:var(--#{color})" x="#{Plot::WIDTH - RIGHT + 10}" y="#{below}">#{Plot.escape(name)}: #{points.last.last}</text>)
    end
  end

  def x(value) = (LEFT + ((Math.log10(value) - @powers.first) / (@powers.last - @powers.first) * (Plot::WIDTH - LEFT - RIGHT))).round(1)
  def y(value) = (BOTTOM - (value / @top.to_f * HEIGHT)).round(1)
end
