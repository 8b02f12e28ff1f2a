-- A row of a vector file: each function gives what is wrong with it.

local Values = require "values"
local errors = require "seriatim.errors"
local native = require "seriatim.native"
local recorder = require "recorder"
local seriatim = require "seriatim"

local SAMPLES = 1000
local EXACT = 2 ^ 53
local KEYS = [[
local found = redis.call('KEYS', '*')
for place, key in ipairs(found) do
  found[place] = key:gsub('.', function(byte) return ('%02x'):format(byte:byte()) end)
end
return found]]

local vectors = {}

local function same(wanted, found)
  return Values.new():compare(wanted, found, "it")
end

-- Keys that come and go by time and not by the steps: nodes, remembered pushes, and the history that a running server writes.
local TIMED = { ":{/nodes}:", ":push:", "}:history" }

local function is_timed(key)
  for _, part in ipairs(TIMED) do
    if key:find(part, 1, true) then
      return true
    end
  end
  return false
end

---The keys that the step keys compares.
---@return string[]
function vectors.stored_keys(redis)
  local keys = {}
  for hex in redis:call("EVAL", KEYS, "0"):gmatch("%x+") do
    local key = Values.bytes { hex = hex }
    if not is_timed(key) then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys)
  return keys
end

function vectors.shard_of(row)
  return same(row.shard, native.shard_of(Values.bytes(row.id), row.shards_count))
end

function vectors.keys(row, redis)
  redis:flush()
  seriatim.namespace = Values.bytes(row.namespace)
  local worker = recorder.worker("keys", { name = row.queue, shards_count = row.shards_count })
  errors.must(worker:perform_async { { id = Values.bytes(row.id) } })
  return same(row.keys, vectors.stored_keys(redis))
end

-- ---- json

---The number of these 64 bits (hex, greatest byte first).
local function double(hex)
  local high, low = tonumber(hex:sub(1, 8), 16), tonumber(hex:sub(9), 16)
  local exponent, sign = math.floor(high / 2 ^ 20) % 2 ^ 11, high >= 2 ^ 31 and -1 or 1
  local fraction = high % 2 ^ 20 * 2 ^ 32 + low
  if exponent == 2047 then
    return fraction == 0 and sign * math.huge or 0 / 0
  elseif exponent == 0 then
    return sign * fraction * 2 ^ -1074
  end
  return sign * (1 + fraction / 2 ^ 52) * 2 ^ (exponent - 1023)
end

---LuaJIT knows no difference between 1 and 1.0.
local function kind_of(value)
  if math.type and math.type(value) then
    return math.type(value)
  elseif type(value) == "number" then
    return value % 1 == 0 and math.abs(value) <= EXACT and "integer" or "float"
  end
  return type(value) == "cdata" and "integer" or type(value)
end

local function canonical(row)
  local value = row.double and double(row.double) or errors.must(native.load(Values.bytes(row.text)))
  return native.dump(value, "payload"), kind_of(value)
end

function vectors.json(row)
  local done, text, kind = pcall(canonical, row)
  if not done then
    return row.refused and {} or { tostring(text) }
  elseif row.refused then
    return { "it was not refused, but written as " .. text }
  end
  return Values.add(same(row.canonical, text), same(row.type or kind, kind))
end

-- ---- numbers

function vectors.back_off(row)
  local retry_in, seen, missing = seriatim.worker({ name = "back_off" }).retry_in, {}, {}
  for _ = 1, SAMPLES do
    seen[retry_in(row.retry_count)] = true
  end
  for wanted = row.min, row.max, row.step do
    missing[#missing + 1] = not seen[wanted] and ("%d is missing"):format(wanted) or nil
    seen[wanted] = nil
  end
  for strange in pairs(seen) do
    missing[#missing + 1] = ("%s is none of them"):format(strange)
  end
  return missing
end

function vectors.split(row)
  seriatim.threads_per_node = row.threads
  local shards, found = {}, {}
  for place = 1, row.shards do
    shards[place] = { index = place - 1 }
  end
  local by_node = row.splitter == "by_node"
  local splitter = by_node and seriatim.build_by_node_splitter(row.nodes, row.node) or seriatim.build_default_splitter()
  for place, group in ipairs(splitter(shards) or {}) do
    found[place] = {}
    for at, shard in ipairs(group) do
      found[place][at] = shard.index
    end
  end
  return same(row.groups, found)
end

return vectors
