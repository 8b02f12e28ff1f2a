-- What script/check asks of the Lua sources: one source for PUC 5.1, LuaJIT and 5.4.
std = "lua51+lua54"
max_line_length = 130
files["lua/spec"] = { std = "lua51+lua54+busted" }
files["lua/resty"] = { std = "ngx_lua" }
files["lua/types"] = { unused = false, max_line_length = false }
