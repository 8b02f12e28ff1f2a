# frozen_string_literal: true

# languages.rb - how the processes of each language are started.
class Language
  ROOT = File.expand_path("../..", __dir__)
  RUBY = ["ruby", "-I", "#{ROOT}/ruby/lib"].freeze
  PYTHON = ENV.fetch("PYTHON", "/usr/bin/python3")

  attr_reader :name, :variables, :server, :producer

  # @param variables [Hash] of the environment of both
  # @param server [Array<String>] the command `seriatim -r status_worker`
  # @param producer [Array<String>] the command that pushes
  def initialize(name, variables, server, producer)
    @name = name
    @variables = variables
    @server = server
    @producer = producer
  end

  ALL = [
    new("ruby", {}, [*RUBY, "#{ROOT}/ruby/exe/seriatim", "-r", "#{__dir__}/status_worker.rb"], [*RUBY, "#{__dir__}/producer.rb"]),
    new("python", { "PYTHONPATH" => "#{ROOT}/python" }, [PYTHON, "-m", "seriatim", "-r", "#{__dir__}/status_worker.py"],
        [PYTHON, "#{__dir__}/producer.py"]),
    new("lua", { "LUA_PATH" => "#{ROOT}/lua/?.lua;#{__dir__}/?.lua;;", "LUA_CPATH" => "#{ROOT}/lua/lib/5.4/?.so;;" },
        ["lua5.4", "#{ROOT}/lua/bin/seriatim-lua", "-r", "#{__dir__}/status_worker.lua"], ["lua5.4", "#{__dir__}/producer.lua"])
  ].to_h { |language| [language.name, language] }.freeze

  def to_s = name.capitalize
end
