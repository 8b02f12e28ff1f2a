-- The step ick: calls on two-phase commit sets, each by the object that the step names.

local Values = require "values"
local errors = require "seriatim.errors"
local native = require "seriatim.native"
local seriatim = require "seriatim"

---@class spec.Sets
local Sets = {}
Sets.__index = Sets

function Sets.new(values)
  return setmetatable({ values = values, objects = {} }, Sets)
end

local function object_of(self, step)
  local label = step.object or step.as or ""
  self.objects[label] = self.objects[label] or seriatim.ick { consumer = step.as, reserve_time = step.reserve_time }
  return self.objects[label]
end

local function pairs_of(step)
  local list = {}
  for n = 1, step.numbers or 0 do
    list[2 * n - 1], list[2 * n] = n, ("%d"):format(n)
  end
  for _, pair in ipairs(step.pairs or {}) do
    list[#list + 1] = Values.number(pair[1])
    list[#list + 1] = Values.bytes(pair[2])
  end
  return list
end

local function members_of(step)
  local list = {}
  for n = 1, step.numbers or 0 do
    list[n] = ("%d"):format(n)
  end
  for _, member in ipairs(step.members or {}) do
    list[#list + 1] = Values.bytes(member)
  end
  return list
end

local calls = {}

function calls.ickadd(ick, name, step) return ick:ickadd(name, pairs_of(step)) end
function calls.ickcommit(ick, name, step) return ick:ickcommit(name, members_of(step)) end
function calls.ickreserve(ick, name, step) return ick:ickreserve(name, step.size, { backwash = step.backwash }) end
function calls.ickexchange(ick, name, step) return ick:ickexchange(name, step.size, members_of(step), { backwash = step.backwash }) end
function calls.import(ick, name, step) return ick:import(name, step.from) end

---Returns what the call returns; nil without an error where ickstats finds no set.
local function call(ick, step)
  local name = Values.bytes(step.set or "k")
  return (calls[step.call] or ick[step.call])(ick, name, step)
end

local function wanted_of(step)
  local expect = step.expect
  if step.call ~= "ickreserve" and step.call ~= "ickexchange" then
    return expect
  end
  local list = {}
  for n = 1, expect.numbers or 0 do
    list[n] = { ("%d"):format(n), n }
  end
  for place, pair in ipairs(expect) do
    list[place] = { Values.bytes(pair[1]), Values.number(pair[2]) }
  end
  return setmetatable(list, seriatim.array_mt)
end

local function compare(self, step, found)
  if step.expect == nil then
    return {}
  end
  return self.values:compare(wanted_of(step), found == nil and native.null or found, step.call)
end

---What is wrong, as a list of texts.
function Sets:run(step)
  local ick = object_of(self, step)
  if not step.calls then
    local found, err = call(ick, step)
    if err ~= nil then
      error(err, 0)
    end
    return compare(self, step, found)
  end
  local found = errors.must(ick:pipelined(function(pipeline)
    for _, each in ipairs(step.calls) do
      call(pipeline, each)
    end
  end))
  local wrong = {}
  for place, each in ipairs(step.calls) do
    Values.add(wrong, compare(self, each, found[place]))
  end
  return wrong
end

return Sets
