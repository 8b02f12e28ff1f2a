# frozen_string_literal: true

require "json"

# What script/embed writes from core/definitions/events.json.
class Events
  ROW = Struct.new(:name, :number, :number_is, :text_is, :about, :words, :label, keyword_init: true)
  HOLDS = { "due" => "EVENT_IS_DUE", "fence" => "EVENT_IS_FENCE", "payloads_count" => "EVENT_IS_COUNT",
            "node" => "EVENT_HAS_NODE", "error" => "EVENT_HAS_ERROR", nil => nil }.freeze # in C
  LOCALES = %w[de en es fr ja].freeze

  PAGE = "docs/guides/troubleshooting.md"

  def initialize(path)
    @rows = JSON.parse(File.read(path)).fetch("events").map { |row| ROW.new(**row.transform_keys(&:to_sym)) }
    twice = @rows.map(&:number).tally.select { |_, times| times > 1 }.keys
    raise "#{path}: #{twice.join(", ")} is the number of two events" if twice.any?
  end

  # @param text [String] of PAGE
  # @raise [RuntimeError] the page does not name each event
  def check_page(text)
    missing = @rows.map(&:name).reject { |name| text.include?("`#{name}`") }
    raise "#{PAGE} does not name the event #{missing.join(", ")} of core/definitions/events.json" if missing.any?
  end

  # @return [Hash{String => Hash{String => String}}] path => text by the name of its place, in the core
  def core_blocks
    { "core/src/model/stored.h" => { "events" => @rows.map { |row| number(row) }.join },
      "core/src/model/event.c" => { "events" => @rows.map { |row| kind(row) }.join },
      **LOCALES.to_h { |locale| ["core/web/locales/#{locale}.js", { "events" => labels(locale) }] } }
  end

  private

  def number(row) = "#define SRT_EVENT_#{row.name.upcase} #{row.number}#{" /* #{row.about} */" if row.about}\n"

  def kind(row)
    holds = [HOLDS.fetch(row.number_is), HOLDS.fetch(row.text_is)].compact
    "    [SRT_EVENT_#{row.name.upcase}] = {\"#{row.name}\", #{row.words.inspect}, #{holds.empty? ? 0 : holds.join(" | ")}},\n"
  end

  def labels(locale) = @rows.map { |row| "  \"event.#{row.name}\": #{row.label.fetch(locale).to_json},\n" }.join
end
