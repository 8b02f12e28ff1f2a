# frozen_string_literal: true

# How the processes of each language are started. Another language is one more entry.
module Language
  ROOT = File.expand_path("../..", __dir__)
  RUBY = ["ruby", "-I", "#{ROOT}/ruby/lib"].freeze
  PYTHON = ENV.fetch("PYTHON", "/usr/bin/python3")
  INTEROP = "#{ROOT}/spec/interop"
  WORKLOAD = "#{ROOT}/ruby/spec/processes/support"

  # variables of the environment; commands: the agent, `seriatim -r app`, the producer of storm.
  Commands = Struct.new(:variables, :agent, :server, :producer, keyword_init: true)

  ALL = {
    "ruby" => Commands.new(variables: {}, agent: [*RUBY, "#{INTEROP}/agent.rb"],
                           server: [*RUBY, "#{ROOT}/ruby/exe/seriatim", "-r", "#{WORKLOAD}/app.rb"],
                           producer: [*RUBY, "#{WORKLOAD}/producer.rb"]),
    "python" => Commands.new(variables: { "PYTHONPATH" => "#{ROOT}/python" }, agent: [PYTHON, "#{INTEROP}/agent.py"],
                             server: [PYTHON, "-m", "seriatim", "-r", "#{INTEROP}/app.py"],
                             producer: [PYTHON, "#{INTEROP}/producer.py"]),
    "lua" => Commands.new(variables: { "LUA_PATH" => "#{ROOT}/lua/?.lua;#{INTEROP}/?.lua;#{ROOT}/spec/conformance/runners/lua/?.lua;#{ROOT}/spec/crash/?.lua;;",
                                       "LUA_CPATH" => "#{ROOT}/lua/lib/5.4/?.so;;" },
                          agent: ["lua5.4", "#{INTEROP}/agent.lua"],
                          server: ["lua5.4", "#{ROOT}/lua/bin/seriatim-lua", "-r", "#{INTEROP}/app.lua"],
                          producer: ["lua5.4", "#{INTEROP}/producer.lua"])
  }.freeze
end
