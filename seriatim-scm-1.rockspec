-- The rock of the checkout: luarocks --lua-version=5.4 make (or 5.1, which serves LuaJIT, too). Needs no network.
rockspec_format = "3.0"
package = "seriatim"
version = "scm-1"
source = { url = "." }
description = {
  summary = "Background jobs in order, per id, folded, on Redis",
  detailed = [[
Queues jobs on Redis so that the jobs of one id run one after another, in order, never twice at once, with equal and
superseded messages folded. One C core under Ruby, Python and Lua.]],
  license = "MIT",
}
dependencies = { "lua >= 5.1, < 5.5" }
external_dependencies = {
  HIREDIS = { header = "hiredis/read.h" },
  OPENSSL = { header = "openssl/ssl.h" },
}

-- Of bindings/lua, without .c.
local glue = {
  "lua_changes", "lua_client", "lua_definitions", "lua_delivery", "lua_fake", "lua_ick", "lua_json", "lua_link", "lua_memory", "lua_node", "lua_operators", "lua_policy", "lua_pop",
  "lua_places", "lua_private_redis", "lua_process", "lua_rows", "lua_runner", "lua_sentinel", "lua_signals", "lua_socket", "lua_source", "lua_system", "lua_thread",
  "lua_web", "seriatim_native",
}
-- Of lua/; lua/spec/rockspec_spec.lua compares this with the folder.
local names = {
  "resty.seriatim", "resty.seriatim.channel", "resty.seriatim.host", "resty.seriatim.later", "resty.seriatim.loop", "resty.seriatim.masters", "resty.seriatim.node",
  "resty.seriatim.phases", "resty.seriatim.places", "resty.seriatim.sentinel", "resty.seriatim.socket", "resty.seriatim.timers",
  "resty.seriatim.transport", "resty.seriatim.wakes", "resty.seriatim.web", "seriatim", "seriatim.cli", "seriatim.cli.config_file",
  "seriatim.cli.exit_codes", "seriatim.cli.failure", "seriatim.cli.operators", "seriatim.cli.options", "seriatim.cli.output", "seriatim.cli.reshard_command",
  "seriatim.cli.server_command",
  "seriatim.cli.tables", "seriatim.cli.web_command", "seriatim.client.actions", "seriatim.client.blocks", "seriatim.client.codec",
  "seriatim.client.connection", "seriatim.client.ick", "seriatim.client.inspect", "seriatim.client.int64", "seriatim.client.jobs", "seriatim.client.metrics",
  "seriatim.client.middlewares", "seriatim.client.node_commands", "seriatim.client.pool", "seriatim.client.pop",
  "seriatim.client.pipeline", "seriatim.client.private_redis", "seriatim.client.push", "seriatim.client.push_result", "seriatim.client.queries", "seriatim.client.queue",
  "seriatim.client.redis_url", "seriatim.client.spelling", "seriatim.client.stored_error", "seriatim.client.transport", "seriatim.client.validate",
  "seriatim.errors", "seriatim.events", "seriatim.log", "seriatim.portable", "seriatim.server", "seriatim.server.application", "seriatim.server.batch",
  "seriatim.server.execution", "seriatim.server.health", "seriatim.server.host", "seriatim.server.node",
  "seriatim.server.schedulers", "seriatim.server.splitters", "seriatim.server.supervisor",
  "seriatim.server.workers", "seriatim.settings", "seriatim.testing", "seriatim.testing.batch", "seriatim.testing.given", "seriatim.testing.memory",
  "seriatim.version", "seriatim.web", "seriatim.web.dashboard", "seriatim.web.stand_alone",
  "seriatim.worker",
}

-- A rockspec has no functions to call but those of strings.
local sources, modules = { "core/src/all.c" }, {}
for place = 1, #glue do
  sources[place + 1] = "bindings/lua/" .. glue[place] .. ".c"
end
for place = 1, #names do
  modules[names[place]] = "lua/" .. names[place]:gsub("%.", "/") .. ".lua"
end
modules["seriatim.native"] = {
  sources = sources,
  incdirs = { "core/include", "core/src", "$(HIREDIS_INCDIR)", "$(OPENSSL_INCDIR)" },
  libdirs = { "$(HIREDIS_LIBDIR)", "$(OPENSSL_LIBDIR)" },
  libraries = { "hiredis", "ssl", "crypto", "pthread" },
  defines = { "SERIATIM_WITH_OPENSSL" },
}

build = {
  type = "builtin",
  modules = modules,
  platforms = { linux = { modules = { ["seriatim.native"] = { libraries = { [5] = "dl" } } } } },
  copy_directories = { "core/package/seriatim-lua" }, -- the manual page and the completions
  install = { bin = { ["seriatim-lua"] = "lua/bin/seriatim-lua" } },
}
