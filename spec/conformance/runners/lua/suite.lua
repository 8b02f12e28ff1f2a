-- All files of the contract that the words select.

local Report = require "report"
local Scenario = require "scenario"
local json = require "json"
local log = require "seriatim.log"
local seriatim = require "seriatim"
local vectors = require "vectors"

---@class spec.Suite
local Suite = {}
Suite.__index = Suite

---folder: spec/. host: starts servers (turns.lua, or lights.lua inside nginx). write: takes the report's lines.
---@param folder string
---@param words string[]
---@param redis spec.RedisServer
---@param host spec.Host
---@param write fun(line: string)
function Suite.new(folder, words, redis, host, write)
  return setmetatable({ folder = folder, words = words, redis = redis, host = host, report = Report.new(write) }, Suite)
end

---@return boolean  something ran and nothing failed
function Suite:run()
  self:settings()
  for _, name in ipairs(self:files("vectors")) do
    self:vectors(name, json.load_file(("%s/vectors/%s.json"):format(self.folder, name)).rows)
  end
  for _, name in ipairs(self:files("scenarios")) do
    self:scenarios(name, json.load_file(("%s/scenarios/%s.json"):format(self.folder, name)).scenarios)
  end
  return self.report:finish()
end

function Suite:settings()
  if not os.getenv("CONFORMANCE_LOG") then
    log.output = function() end
  end
  seriatim.redis = self.redis.url
  seriatim.poll_interval = 5
  seriatim.lease_time = 10
end

---Names without their ends, sorted.
function Suite:files(kind)
  local pipe = assert(io.popen(("ls '%s/%s'"):format(self.folder, kind)))
  local names = {}
  for name in pipe:lines() do
    names[#names + 1] = name:match("^(.*)%.json$")
  end
  pipe:close()
  return names
end

function Suite:wanted(file, name)
  for _, word in ipairs(self.words) do
    if word == file or name and name:find(word, 1, true) then
      return true
    end
  end
  return #self.words == 0
end

function Suite:vectors(file, rows)
  if not self:wanted(file) then
    return
  end
  self.report:scenario()
  for place, row in ipairs(rows) do
    self.report:check(("%s, row %d"):format(file, place), function() return vectors[file](row, self.redis) end)
  end
end

function Suite:scenarios(file, scenarios)
  for _, scenario in ipairs(scenarios) do
    if self:wanted(file, scenario.name) then
      self.report:scenario()
      Scenario.new(file, scenario, self.redis, self.report, self.host):run()
    end
  end
end

return Suite
