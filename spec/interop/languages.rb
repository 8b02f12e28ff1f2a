# frozen_string_literal: true

# How the processes of each language are started. Another language is one more entry.
module Language
  ROOT = File.expand_path("../..", __dir__)
  RUBY = ["ruby", "-I", "#{ROOT}/ruby/lib"].freeze
  PYTHON = ENV.fetch("PYTHON", "/usr/bin/python3")
  WORKLOAD = "#{ROOT}/ruby/spec/processes/support"

  # variables of the environment; commands: the agent, `seriatim -r app`, the producer of storm.
  Commands = Struct.new(:variables, :agent, :server, :producer, keyword_init: true)

  ALL = {
    "ruby" => Commands.new(variables: {}, agent: [*RUBY, "#{__dir__}/agent.rb"],
                           server: [*RUBY, "#{ROOT}/ruby/exe/seriatim", "-r", "#{WORKLOAD}/app.rb"],
                           producer: [*RUBY, "#{WORKLOAD}/producer.rb"]),
    "python" => Commands.new(variables: { "PYTHONPATH" => "#{ROOT}/python" }, agent: [PYTHON, "#{__dir__}/agent.py"],
                             server: [PYTHON, "-m", "seriatim", "-r", "#{__dir__}/app.py"],
                             producer: [PYTHON, "#{__dir__}/producer.py"]),
    "lua" => Commands.new(variables: { "LUA_PATH" => "#{ROOT}/lua/?.lua;#{__dir__}/?.lua;#{ROOT}/spec/lua/?.lua;#{ROOT}/spec/crash/?.lua;;",
                                       "LUA_CPATH" => "#{ROOT}/lua/lib/5.4/?.so;;" },
                          agent: ["lua5.4", "#{__dir__}/agent.lua"],
                          server: ["lua5.4", "#{ROOT}/lua/bin/seriatim-lua", "-r", "#{__dir__}/app.lua"],
                          producer: ["lua5.4", "#{__dir__}/producer.lua"])
  }.freeze
end
