# frozen_string_literal: true

require "json"

# What script/embed writes from core/definitions/nodes.json.
class NodeFields
  ROW = Struct.new(:name, :kind, :key, :about, :label, keyword_init: true)
  KINDS = { "integer" => "INTEGER", "milliseconds" => "SECONDS", "text" => "TEXT" }.freeze # in C
  PYTHON = { "integer" => "int", "milliseconds" => "float", "text" => "str" }.freeze
  LUA = { "integer" => "number", "milliseconds" => "number", "text" => "string" }.freeze
  LOCALES = %w[de en es fr ja].freeze

  def initialize(path)
    @rows = JSON.parse(File.read(path)).fetch("fields").map { |row| ROW.new(**row.transform_keys(&:to_sym)) }
    @rows.each { |row| raise "#{path}: #{row.name} has the kind #{row.kind.inspect}" unless KINDS.key?(row.kind) }
  end

  # @return [String] for definitions.h
  def c
    lines = @rows.map { |row| "    X(#{KINDS.fetch(row.kind)}, #{row.name}, \"#{row.key}\") /* #{row.about} */" }
    "/* X(kind, name, key): kind is INTEGER, SECONDS (the heartbeat has milliseconds) or TEXT; see seriatim_living_node. */\n" \
      "#define SERIATIM_NODE_FIELDS(X) \\\n#{lines.join(" \\\n")}\n"
  end

  # @return [Hash{String => Hash{String => String}}] path => text by the name of its place, in the core
  def core_blocks = LOCALES.to_h { |locale| ["core/web/locales/#{locale}.js", { "node fields" => labels(locale) }] }

  # @return [Hash{String => Hash{String => String}}] the same outside of the core
  def blocks
    { "python/seriatim/_types.py" => { "node fields" => @rows.map { |row| "    #{row.name}: #{PYTHON.fetch(row.kind)} | None\n    \"\"\"#{row.about}\"\"\"\n" }.join },
      "lua/seriatim/client/metrics.lua" => { "node fields" => "local NODE_FIELDS = { #{@rows.map { |row| row.name.inspect }.join(", ")} }\n" },
      "docs/reference/http-api.md" => { "node fields" => list } }
  end

  # @return [String] for lua/types/definitions.lua
  def lua
    fields = @rows.map { |row| "---#{row.about}\n---@field #{row.name} #{LUA.fetch(row.kind)}?" }
    "---What a node tells of its process; nil where it does not.\n---@class seriatim.NodeFields\n#{fields.join("\n")}"
  end

  private

  def labels(locale)
    @rows.select(&:label).map do |row|
      label, hint = row.label.fetch(locale)
      "  \"node.#{row.name}\": #{label.to_json},\n  \"node.#{row.name}.hint\": #{hint.to_json},\n"
    end.join
  end

  def list = @rows.map { |row| "- `#{row.name}`: #{row.about}\n" }.join
end
