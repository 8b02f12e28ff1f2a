# frozen_string_literal: true

require_relative "processes"

# The servers that bench/profile looks at, of any tree that was set up; the applications are this tree's.
module Profiled
  APPS = File.expand_path("../apps", __dir__)
  STACKPROF = "#{__dir__}/stackprof_around.rb"
  THREADS = "5"
  Server = Struct.new(:name, :title, :environment, :command)

  module_function

  # @param tree [String]
  # @param folder [String] of the C worker of that tree
  def servers(tree, folder)
    [Server.new("ruby", "Ruby", {}, ruby(tree)),
     Server.new("python", "Python", { "PYTHONPATH" => "#{tree}/python:#{APPS}" }, python),
     Server.new("lua", "Lua 5.4", lua_paths(tree), lua(tree)),
     Server.new("c", "C", { "BENCH_THREADS" => THREADS }, ["#{folder}/worker"])]
  end

  def ruby(tree) = ["ruby", "-I", "#{tree}/ruby/lib", "#{tree}/ruby/exe/seriatim", "-c", THREADS, "-r", "#{APPS}/seriatim.rb"]
  def python = ["/usr/bin/python3", "-m", "seriatim", "-c", THREADS, "-r", "#{APPS}/bench_seriatim.py"]
  def lua(tree) = ["lua5.4", "#{tree}/lua/bin/seriatim-lua", "-c", THREADS, "-r", "#{APPS}/bench_seriatim.lua"]

  def lua_paths(tree) = { "LUA_PATH" => "#{tree}/lua/?.lua;#{APPS}/?.lua;;", "LUA_CPATH" => "#{tree}/lua/lib/5.4/?.so;;" }

  # The Ruby server under stackprof, if there is one; result: where its figures go.
  def with_stackprof(server, result)
    return unless system("ruby", "-e", 'require "stackprof"', err: File::NULL)

    command = ["ruby", "-r", STACKPROF, *server.command.drop(1)]
    Server.new("stackprof", "Ruby, by methods", { "PROFILE_RESULT" => result }, command)
  end
end
