# frozen_string_literal: true

require "json"
require_relative "lib/events"
require_relative "lib/job_fields"
require_relative "lib/node_fields"
require_relative "lib/operations"

# What script/embed writes from core/definitions/: the C tables, the types for the type checkers of Python, Lua and Ruby, the methods
# for actions and queries (lib/operations.rb), and the tables of the documentation.
class Definitions
  NOTE = "written by script/embed from core/definitions/; do not edit"
  PAGE = "docs/guides/configuration.md"

  # One setting of a worker, as core/definitions/settings.json has it.
  class Setting
    C_KINDS = { "word" => "WORD", "integer" => "COUNT", "seconds" => "SECONDS", "flag" => "FLAG" }.freeze
    KINDS = [*C_KINDS.keys, "text", "other"].freeze

    def initialize(row)
      @row = row
      raise "settings.json: #{name}: unknown kind #{kind.inspect}" unless KINDS.include?(kind)
      raise "settings.json: #{name}: belongs to #{belongs.inspect}" unless %w[creation queue process].include?(belongs)
    end

    def name = @row.fetch("name")
    def kind = @row.fetch("kind")
    def belongs = @row.fetch("belongs")
    def about = @row.fetch("about")
    def words = @row["words"]
    def default = @row["default"]
    def only = @row["only"]
    def optional? = @row["optional"]
    def hidden? = @row["hidden"]
    def other? = kind == "other"
    def in_c? = C_KINDS.key?(kind)

    # X(kind, name, low, least, high, initial, words, use); see seriatim.h
    def to_c
      values = [C_KINDS.fetch(kind), name, *c_range, c_default, words ? "\"#{words.map { |word| "#{word}\\0" }.join}\"" : "NULL", use]
      "X(#{values.join(", ")}) /* #{about.delete("`")}#{" 0: #{@row["zero"]}." if @row["zero"]} */"
    end

    # Of each language: the type as its type checkers write it.
    def python
      base = { "word" => word_type, "integer" => "int", "seconds" => "float", "flag" => "bool", "text" => "str" }[kind]
      base ? base + (optional? ? " | None" : "") : @row.fetch("types").fetch("python")
    end

    def lua
      base = { "word" => "seriatim.#{word_type}?", "integer" => "integer?", "seconds" => "number?", "flag" => "boolean?",
               "text" => "string?" }[kind]
      base || @row.fetch("types").fetch("lua")
    end

    def ruby
      base = { "word" => words && "(#{words.map { |word| ":#{word}" }.join(" | ")})", "integer" => "Integer", "seconds" => "Numeric",
               "flag" => "bool", "text" => "String" }[kind]
      base ? base + (optional? ? "?" : "") : @row.fetch("types").fetch("ruby")
    end

    # OnWaiting for on_waiting: the name of the type of its words
    def word_type = name.split("_").map(&:capitalize).join

    # setting, value, range, default and what it does, as docs/configuration.md shows them
    def cells
      value = @row["value_about"] || (optional? ? "#{kind} or nil" : kind)
      ["`#{name}`#{" (#{only})" if only}", value, range_about, default_about, about]
    end

    # For comments: "How many parts the queue has. Default: 5. 1 to 4096."
    def comment
      [about, "Default: #{default_about}.", ("#{range_about}." unless range_about == "–" || kind == "flag")].compact.join(" ").delete("`")
    end

    private

    def use = hidden? ? "HIDDEN" : optional? ? "OPTIONAL" : "PLAIN"

    def c_range
      return [0, 0, kind == "flag" ? 1 : 0] unless @row.key?("min")

      [@row["zero"] ? 0 : @row["min"], @row["min"], @row["max"]]
    end

    def c_default
      case default
      when String then default.inspect
      when Numeric then default
      else 0
      end
    end

    def range_about
      return words.map { |word| "`#{word}`" }.join(", ") if words
      return "true, false" if kind == "flag"

      @row.key?("min") ? "#{@row["min"]} to #{@row["max"]}#{" bytes" if [kind, @row["value_about"]].include?("text")}" : "–"
    end

    def default_about
      @row["default_about"] || (default.is_a?(String) ? "`#{default}`" : default.nil? ? "nil" : default.to_s)
    end
  end

  def initialize(root)
    @root = root
    @settings = JSON.parse(File.read(File.join(root, "core/definitions/settings.json"))).fetch("settings").map { |row| Setting.new(row) }
    @node_fields = NodeFields.new(File.join(root, "core/definitions/nodes.json"))
    @job_fields = JobFields.new(File.join(root, "core/definitions/jobs.json"))
    @operations = Operations.new(File.join(root, "core/definitions/operations.json"))
    @events = Events.new(File.join(root, "core/definitions/events.json"))
  end

  # @return [Hash{String => String}] path => text
  def core = { "core/include/seriatim/definitions.h" => header, **all_filled(together([@node_fields, @operations, @events].map(&:core_blocks))) }.transform_keys { |path| File.join(@root, path) }

  def outside_core
    @events.check_page(File.read(File.join(@root, Events::PAGE)))
    { "python/seriatim/_definitions.py" => python, "python/seriatim/_decorator.py" => python_decorator,
      "lua/types/definitions.lua" => lua, "ruby/sig/definitions.rbs" => ruby, PAGE => page,
      **all_filled(blocks_outside_core) }.transform_keys { |path| File.join(@root, path) }
  end

  private

  def blocks_outside_core = together([@operations, @node_fields, @job_fields].map(&:blocks))

  # Blocks of one file from several tables stand side by side.
  def together(blocks) = blocks.reduce { |all, some| all.merge(some) { |_, left, right| left.merge(right) } }

  def all_filled(blocks) = blocks.to_h { |path, texts| [path, filled(path, texts)] }

  # The file with each text between its two marks: `definitions: NAME, ...` and `end of definitions`, which stand in comments.
  def filled(path, texts)
    texts.reduce(File.read(File.join(@root, path))) do |file, (name, text)|
      file.sub!(/^(.*\bdefinitions: #{name}, .*\n)(?:.*\n)*?(?=.*\bend of definitions\b)/) { "#{$1}\n#{text}\n" } or
        raise "#{path}: the definitions of #{name} have no place"
    end
  end

  def shown = @settings.reject(&:hidden?)

  # ---- C

  def header
    <<~C
      /* definitions.h - #{NOTE}. */
      #ifndef SERIATIM_DEFINITIONS_H
      #define SERIATIM_DEFINITIONS_H

      /* clang-format off */
      /*
       * X(kind, name, low, least, high, initial, words, use): low and high are what C takes, least is what a user may write at least;
       * each of the words of a WORD ends with a NUL; use is PLAIN, OPTIONAL (nil stands for 0) or HIDDEN (no user sets it).
       */
      #{c_table("SERIATIM_QUEUE_SETTINGS", @settings.select { |setting| setting.in_c? && setting.belongs == "queue" }.map(&:to_c))}
      #{c_table("SERIATIM_OWN_SETTINGS", @settings.select { |setting| setting.in_c? && setting.belongs != "queue" }.map(&:to_c))}
      #{@operations.c}
      #{@node_fields.c}
      #{@job_fields.c}
      /* clang-format on */

      #endif
    C
  end

  def c_table(name, rows) = "#define #{name}(X) \\\n#{rows.map { |row| "    #{row}" }.join(" \\\n")}\n"

  # ---- Python

  def of_python = shown.reject { |setting| setting.only && setting.only != "Python" }

  def python
    words = shown.select(&:words).map { |setting| "#{setting.word_type} = Literal[#{setting.words.map(&:inspect).join(", ")}]" }
    <<~PYTHON
      """The settings of a worker as types: #{NOTE}."""

      from __future__ import annotations

      from typing import ClassVar, Literal

      from ._types import CodecSetting

      #{words.join("\n")}


      class WorkerSettings:
          """Class attributes of a worker. Their defaults come from the core."""

      #{of_python.map { |setting| "    #{setting.name}: ClassVar[#{setting.python}]\n    \"\"\"#{setting.comment}\"\"\"" }.join("\n")}
    PYTHON
  end

  def python_decorator
    <<~PYTHON
      """seriatim.worker, the decorator: #{NOTE}."""

      from __future__ import annotations

      from collections.abc import Awaitable, Callable
      from typing import Any, ParamSpec, TypeVar, overload

      from ._definitions import #{shown.select(&:words).map(&:word_type).sort.join(", ")}
      from ._types import CodecSetting
      from ._worker import FunctionWorker

      P = ParamSpec("P")
      R = TypeVar("R")


      @overload
      def worker(function: Callable[P, R], /) -> FunctionWorker[P, R]: ...


      @overload
      def worker(
          *,
      #{of_python.map { |setting| "    #{setting.name}: #{setting.python} = ...," }.join("\n")}
          retry_in: Callable[[int], float | Awaitable[float]] = ...,
          retries_exhausted: Callable[[list[Any]], Awaitable[None] | None] = ...,
      ) -> Callable[[Callable[P, R]], FunctionWorker[P, R]]: ...


      def worker(function: Any = None, /, **options: Any) -> Any:
          """
          Makes a function (payloads_by_id) or (payloads_by_id, batch), `def` or `async def`, a worker. Options are the settings
          of Worker, and retry_in (count -> seconds) and retries_exhausted (jobs). The queue has the function's name.
          """
          if function is None:
              return lambda function: FunctionWorker(function, dict(options))
          return FunctionWorker(function, options)
    PYTHON
  end

  # ---- Lua

  def lua
    fields = shown.reject { |setting| setting.only && setting.only != "Lua" }
    <<~LUA
      ---@meta
      -- Types of the settings of a worker: #{NOTE}.

      #{shown.select(&:words).map { |setting| "---@alias seriatim.#{setting.word_type} \"#{setting.words.join('"|"')}\"" }.join("\n")}

      ---@class seriatim.WorkerSettings
      #{fields.map { |setting| "---#{setting.comment}\n---@field #{setting.name} #{setting.lua}" }.join("\n")}

      #{@operations.lua_types}
      #{@node_fields.lua}

      ---Settings as the core takes them, by name.
      ---@alias seriatim.QueueSettings table<string, string|number|boolean>
    LUA
  end

  # ---- Ruby

  def ruby
    fields = shown.reject { |setting| setting.only && setting.only != "Ruby" }
    <<~RBS
      # Types of the settings of a worker: #{NOTE}.
      module Seriatim
        module Worker
      #{fields.map { |setting| "    # #{setting.comment}\n    attr_accessor #{setting.name}: #{setting.ruby}" }.join("\n")}
        end
      end
    RBS
  end

  # ---- Documentation

  HEADS = %w[setting value range default] + ["what it does"]

  def page
    text = File.read(File.join(@root, PAGE))
    %w[creation queue process].each do |group|
      rows = shown.select { |setting| setting.belongs == group }.map(&:cells)
      table = [HEADS, HEADS.map { "---" }, *rows].map { |cells| cells.first == "---" ? "|#{cells.join("|")}|" : "| #{cells.join(" | ")} |" }
      found = text.sub!(/(<!-- settings: #{group}, .*? -->\n).*?(?=<!-- end -->)/m) { "#{$1}\n#{table.join("\n")}\n\n" }
      raise "#{PAGE}: the table of the settings of #{group} has no place" unless found
    end
    text
  end
end
