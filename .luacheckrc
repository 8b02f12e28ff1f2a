-- What script/check asks of the Lua sources: one source for PUC 5.1, LuaJIT and 5.4.
std = "lua51+lua54"
max_line_length = 142
self = false
read_globals = { "jit" }
files["lua/seriatim"] = { ignore = { "122" } } -- os.exit and os.getenv are the command's own in a host thread
files["lua/spec"] = { std = "lua51+lua54+busted", ignore = { "213", "311" } } -- what is dropped for the collector
files["spec/conformance/runners/lua"] = { ignore = { "311", "581" } } -- NaN is neither more nor less
files["lua/resty"] = { std = "ngx_lua" }
files["lua/spec/nginx"] = { std = "ngx_lua", globals = { "JOURNAL", "FAULTS", "wrk", "setup", "init", "delay", "request", "response", "done", "name" } }
files["lua/types"] = { unused = false, max_line_length = false }
