# frozen_string_literal: true

require_relative "contestant"

# Seriatim for Lua 5.4 and the same on LuaJIT.
module FromLua
  LUA = "#{Contestant::ROOT}/lua"
  # Interpreter, title, and the folder of the C module for it.
  KINDS = { "lua" => ["lua5.4", "Seriatim, Lua 5.4", "5.4"], "luajit" => ["luajit", "Seriatim, LuaJIT", "5.1"] }.freeze

  module_function

  def names = KINDS.keys

  # @return [Boolean] it is there
  def install(name) = system(KINDS.fetch(name).first, "-v", out: File::NULL, err: File::NULL)

  def contestant(name, redis, folder)
    interpreter, title, version = KINDS.fetch(name)
    serve = [interpreter, "#{LUA}/bin/seriatim-lua", "-c", Contestant::THREADS.to_s, "-r"]
    Contestant.new(name, title, redis, folder, ours: true, also: [:pipelined], clock: Process::CLOCK_REALTIME,
                   environment: { "LUA_PATH" => "#{LUA}/?.lua;#{Contestant::APPS}/?.lua;;", "LUA_CPATH" => "#{LUA}/lib/#{version}/?.so;;" },
                   commands: { push: [interpreter, app("push"), "seriatim"], pace: [interpreter, app("latency")],
                               fill: [interpreter, app("push"), "backlog", "fill"], both: [*serve, app("backlog")],
                               serve: [*serve, app("seriatim")], note: [*serve, app("latency")] })
  end

  def facts = names.select { |name| install(name) }.to_h { |name| [name, version_of(KINDS.fetch(name).first)] }

  def version_of(interpreter) = IO.popen([interpreter, "-v"], err: %i[child out], &:read)[/\d\S*/]
  def app(name) = "#{Contestant::APPS}/bench_#{name}.lua"
end
