# frozen_string_literal: true

require "json"

# What script/embed writes from core/definitions/jobs.json.
class JobFields
  def initialize(path)
    @names = JSON.parse(File.read(path)).fetch("fields")
  end

  # @return [String] for definitions.h
  def c
    lines = @names.map { |name| "    X(#{name.upcase}, #{name})" }
    "/* X(NUMBER, name): the fields of a job. */\n#define SERIATIM_JOB_FIELDS(X) \\\n#{lines.join(" \\\n")}\n"
  end

  # @return [Hash{String => Hash{String => String}}] path => text by the name of its place
  def blocks
    { "python/seriatim/_client/jobs.py" => { "job fields" => "KEYS = (\n#{list("    ")},\n)\n" },
      "lua/seriatim/client/jobs.lua" => { "job fields" => "local KEYS = {\n#{list("  ")},\n}\n" } }
  end

  private

  # Lines of at most six names.
  def list(before) = @names.map(&:inspect).each_slice(6).map { |names| before + names.join(", ") }.join(",\n")
end
