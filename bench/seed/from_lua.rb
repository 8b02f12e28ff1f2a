# frozen_string_literal: true

require_relative "contestant"
require_relative "from_ruby"

# Seriatim for Lua 5.4 beside the same on LuaJIT, and Seriatim for Ruby.
module FromLua
  PAGE = "lua.md"
  COMMAND = "bench/lua_benchmark"
  TITLE = "The Lua benchmark"
  PEERS = { "luajit" => "LuaJIT", "ruby" => "Ruby" }.freeze
  DEFAULTS = "Seriatim for Lua 5.4, for LuaJIT and for Ruby with its defaults"
  LUA = "#{Contestant::ROOT}/lua"
  NOTES = ["Lua's threads have states of their own; they count their jobs in a file that all append to, in blocks of 100 and the\n  " \
           "last 20,000 one by one."].freeze

  module_function

  # @return [Boolean] it is there
  def install(peer) = system(peer, "-v", out: File::NULL, err: File::NULL)

  def seriatim(redis, folder) = contestant("lua", "Lua 5.4", redis, folder, "lua5.4", "5.4")

  def peer(name, redis, folder)
    return contestant("luajit", "LuaJIT", redis, folder, "luajit", "5.1") if name == "luajit"

    FromRuby.seriatim(redis, folder, name: "ruby", title: "Ruby")
  end

  # @param version [String] of the C module's folder
  def contestant(name, title, redis, folder, interpreter, version)
    Contestant.new(name, title, redis, folder,
                   app: "seriatim",
                   environment: { "LUA_PATH" => "#{LUA}/?.lua;#{Contestant::APPS}/?.lua;;", "LUA_CPATH" => "#{LUA}/lib/#{version}/?.so;;" },
                   script: ->(script) { [interpreter, app(script)] },
                   server: ->(script) { [interpreter, "#{LUA}/bin/seriatim-lua", "-c", Contestant::THREADS.to_s, "-r", app(script)] })
  end

  def facts
    { "lua" => version_of("lua5.4"), "luajit" => version_of("luajit"), "ruby" => FromRuby.facts["ruby"],
      "seriatim" => File.read("#{LUA}/seriatim/version.lua")[/"(.+)"/, 1] }.compact
  end

  def version_of(interpreter) = IO.popen([interpreter, "-v"], err: %i[child out], &:read)[/\d\S*/]
  def app(name) = "#{Contestant::APPS}/bench_#{name}.lua"
end
