# frozen_string_literal: true

require "json"

# What script/embed writes from core/definitions/nodes.json.
class NodeFields
  ROW = Struct.new(:name, :kind, :key, :shown, :page, :about, :label, keyword_init: true)
  KINDS = { "integer" => "INTEGER", "milliseconds" => "SECONDS", "text" => "TEXT" }.freeze # in C
  PYTHON = { "integer" => "int", "milliseconds" => "float", "text" => "str" }.freeze
  LUA = { "integer" => "number", "milliseconds" => "number", "text" => "string" }.freeze
  SHOWN = %w[text number bytes time ahead].freeze # the formats of core/web/pages/nodes.js and of the three commands
  PAGE = %w[second third fourth].freeze
  LOCALES = %w[de en es fr ja].freeze

  def initialize(path)
    @rows = JSON.parse(File.read(path)).fetch("fields").map { |row| ROW.new(**row.transform_keys(&:to_sym)) }
    @rows.each { |row| check(path, row) }
  end

  # @return [String] for definitions.h
  def c
    lines = @rows.map { |row| "    X(#{KINDS.fetch(row.kind)}, #{row.name}, \"#{row.key}\") /* #{row.about} */" }
    "/* X(kind, name, key): kind is INTEGER, SECONDS (the heartbeat has milliseconds) or TEXT; see seriatim_living_node. */\n" \
      "#define SERIATIM_NODE_FIELDS(X) \\\n#{lines.join(" \\\n")}\n"
  end

  # @return [Hash{String => Hash{String => String}}] path => text by the name of its place, in the core
  def core_blocks
    { "core/web/pages/nodes.js" => { "node fields" => "const FIELDS = [\n#{@rows.map { |row| "  #{column(row)},\n" }.join}];\n" },
      **LOCALES.to_h { |locale| ["core/web/locales/#{locale}.js", { "node fields" => labels(locale) }] } }
  end

  # @return [Hash{String => Hash{String => String}}] the same outside of the core
  def blocks
    { "python/seriatim/_types.py" => { "node fields" => @rows.map { |row| "    #{row.name}: #{PYTHON.fetch(row.kind)} | None\n    \"\"\"#{row.about}\"\"\"\n" }.join },
      "lua/seriatim/client/metrics.lua" => { "node fields" => "local NODE_FIELDS = { #{@rows.map { |row| row.name.inspect }.join(", ")} }\n" },
      "ruby/lib/seriatim/cli/operators.rb" =>
        { "node fields" => "      NODE_FIELDS = { #{@rows.map { |row| "#{row.name}: :#{row.shown}" }.join(", ")} }.freeze\n" },
      "python/seriatim/_cli/operators.py" =>
        { "node fields" => "NODE_FIELDS: Final = {\n#{@rows.map { |row| "    \"#{row.name}\": \"#{row.shown}\",\n" }.join}}\n" },
      "lua/seriatim/cli/operators.lua" =>
        { "node fields" => "local NODE_FIELDS = {\n#{@rows.map { |row| "  { \"#{row.name}\", \"#{row.shown}\" },\n" }.join}}\n" },
      "docs/reference/http-api.md" => { "node fields" => list } }
  end

  # @return [String] for lua/types/definitions.lua
  def lua
    fields = @rows.map { |row| "---#{row.about}\n---@field #{row.name} #{LUA.fetch(row.kind)}?" }
    "---What a node tells of its process; nil where it does not.\n---@class seriatim.NodeFields\n#{fields.join("\n")}"
  end

  private

  def check(path, row)
    raise "#{path}: #{row.name} has the kind #{row.kind.inspect}" unless KINDS.key?(row.kind)
    raise "#{path}: #{row.name} is shown as #{row.shown.inspect}" unless SHOWN.include?(row.shown)
    raise "#{path}: #{row.name} has the page #{row.page.inspect}" unless PAGE.include?(row.page)
    raise "#{path}: #{row.name} has no label in #{(LOCALES - row.label.keys).join(", ")}" unless (LOCALES - row.label.keys).empty?
  end

  def column(row) = "{ name: \"#{row.name}\", shownAs: \"#{row.shown}\", page: \"#{row.page}\" }"

  def labels(locale)
    @rows.map do |row|
      label, hint = row.label.fetch(locale)
      "  \"node.#{row.name}\": #{label.to_json},\n  \"node.#{row.name}.hint\": #{hint.to_json},\n"
    end.join
  end

  def list = @rows.map { |row| "- `#{row.name}`: #{row.about}\n" }.join
end
