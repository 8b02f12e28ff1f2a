# frozen_string_literal: true

require "tmpdir"
require_relative "c_program"

# The kit's C programs on a core with a fault in it: a copy of core/ in which texts, each of which must occur exactly once, are
# replaced.
module Mutant
  module_function

  # @param edits [Hash{String => Array}] file below core/ => pairs of what is replaced and by what
  # @return [String] the program's path
  def build(program, edits)
    Dir.mktmpdir("seriatim-mutant") do |folder|
      core = File.join(folder, "core")
      FileUtils.cp_r(CProgram::CORE, core)
      edits.each { |file, pairs| edit(File.join(core, file), pairs) }
      embed(folder) if edits.any? { |file, _| file.start_with?("scripts/") }
      CProgram.build(program, core)
    end
  end

  def edit(path, pairs)
    text = File.read(path)
    pairs.each do |from, to|
      raise "#{File.basename(path)}: #{text.scan(from).size} times: #{from}" unless text.scan(from).size == 1

      text = text.sub(from) { to }
    end
    File.write(path, text)
  end

  def embed(folder)
    FileUtils.cp_r(File.join(CProgram::ROOT, "script"), folder)
    system(File.join(folder, "script/embed"), "--core") or raise "script/embed failed"
  end
end
