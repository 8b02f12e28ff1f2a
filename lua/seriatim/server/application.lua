-- Loads what -r names: a Lua file, a folder with init.lua, or a module by its dotted name. Every state of a server does:
-- the main one first, then each thread's.
local private_redis = require "seriatim.client.private_redis"
local errors = require "seriatim.errors"
local log = require "seriatim.log"

---is_loading: an application is being loaded, or could not be.
---@class seriatim.Application
---@field is_loading boolean
local application = { is_loading = false }

local SEPARATOR = "/"

---A folder can be opened, but not read.
local function is_file(path)
  local file = io.open(path, "rb")
  if not file then
    return false
  end
  local _, problem = file:read(0)
  file:close()
  return problem == nil
end

local function is_there(path)
  local file = io.open(path, "rb")
  if file then
    file:close()
  end
  return file ~= nil
end

---PUC 5.1 has none.
local searchpath = package.searchpath or function(name, path)
  local file_name = name:gsub("%.", SEPARATOR):gsub("%%", "%%%%")
  for template in path:gmatch("[^;]+") do
    local file = template:gsub("%?", file_name)
    if is_file(file) then
      return file
    end
  end
end

local function parts_of(path)
  local folder, name = path:match("^(.*)/([^/]*)$")
  return folder or ".", name or path
end

local function joined(folder, name)
  return (folder == "" and "" or folder) .. SEPARATOR .. name
end

---The file of a path; nil: it may be a module's name.
local function find_file(path)
  local trimmed = path:gsub("(.)/+$", "%1")
  for _, file in ipairs { joined(trimmed, "init.lua"), trimmed, trimmed .. ".lua" } do
    if is_file(file) then
      if not file:find("%.lua$") then
        errors.usage(("-r %s: the name of a Lua file must end in .lua"):format(path))
      end
      return file
    end
  end
  if is_there(trimmed) then
    errors.usage(("-r %s: the folder holds no init.lua"):format(path))
  end
end

---The dotted name of the file's module, and the folder that must be in package.path for it.
local function module_name(file)
  local folder, name = parts_of(file:gsub("%.lua$", ""))
  local package_name
  if name == "init" and folder ~= "." then
    folder, name = parts_of(folder)
  end
  while is_file(joined(folder, "init.lua")) and not folder:find("^%.*$") do
    folder, package_name = parts_of(folder)
    name = package_name .. "." .. name
  end
  return name, folder
end

local function put_in_front(folder)
  local own = ("%s/?.lua;%s/?/init.lua;"):format(folder, folder)
  if package.path:sub(1, #own) ~= own then
    package.path = own .. package.path
  end
end

local function same_file(one, other)
  return one and one:gsub("^%./", "") == other:gsub("^%./", "")
end

local function load_file(path, file)
  local name, folder = module_name(file)
  if select(2, parts_of(file)):gsub("%.lua$", ""):find(".", 1, true) then
    errors.usage(("-r %s: a module's file must have no dot in its name but that of .lua"):format(path))
  end
  put_in_front(folder)
  local found = searchpath(name, package.path)
  if package.loaded[name] ~= nil or package.preload[name] or not same_file(found, file) then
    local other = found and not same_file(found, file) and found or "another module"
    errors.usage(("-r %s: its name %s is already that of %s; rename it"):format(path, name, other))
  end
  require(name)
end

local function load_module(name)
  put_in_front(".")
  local there = package.preload[name] or searchpath(name, package.path) or searchpath(name, package.cpath)
  if name:find("/", 1, true) or not there then
    errors.usage(("-r %s: no such file, no folder with init.lua and no module"):format(name))
  end
  require(name)
end

---Requires it under its own name, so that it is never loaded twice. Raises a usage error when there is nothing to load, and
---whatever the application raises.
---@param path string
function application.load(path)
  application.is_loading = true
  local file = find_file(path)
  if file then
    load_file(path, file)
  else
    load_module(path)
  end
  application.is_loading = false
end

---The line "file:line: text" of what the application raised while it was loaded. nil: it is an error of ours, of Redis for one.
---@param ended { raised: any, traceback: string }  as failure.seen gives it
---@return string?
function application.mistake(ended)
  if errors.is(ended.raised) then
    return
  end
  local text = log.describe(ended.raised):gsub("^error loading module '[^\n]-' from file '[^\n]-':%s+", "")
  local place, rest = text:match("^([^\n]-:%d+: )([^\n]*)")
  if not place then
    place = ended.traceback:match("\nstack traceback:.-\n\t([^%[\n][^\n]-:%d+: )in ") or ""
    rest = text:match "^[^\n]*"
  end
  return place .. rest:gsub("^seriatim: ", ""):gsub(":$", "") -- require has its list behind the colon
end

---What os.getenv says of the environment's name from now on, in this state: Lua cannot set variables.
---@param name string
function application.set_environment(name)
  local getenv, names_it = os.getenv, {}
  for _, variable in ipairs(private_redis.ENVIRONMENTS) do
    names_it[variable] = true
  end
  os.getenv = function(variable)
    return names_it[variable] and name or getenv(variable)
  end
end

return application
