-- include: prelude scheduled
-- SCHEDULED_READ: reads scheduled payloads.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 what the others name: 'payloads' (stamp and id of each) or 'ids'; 3 payloads of an id at most, of 'ids';
--       4.. at most 1,000 of them
-- Returns {how many of them it looked at, then of 'payloads' that are there: stamp and id, deliver_at, text;
--   of 'ids' that have any: id, count, smallest deliver_at, n, then n times stamp, deliver_at, text}.
--   A text is as scheduled.lua keeps it. An answer stops at 384 KiB; the caller asks for the others. The first payload of an id is always
--   among what is read of it.
local MOST = 393216
local names, most = ARGV[2], tonumber(ARGV[3])
local answer, bytes = {0}, 0

-- Adds a payload, if it is there: what names it, deliver_at, text.
local function add(name, id, stamp, time)
  local text = time and call('HGET', SCHEDMAP .. id, stamp)
  if not text then return 0 end
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = name, time, text
  bytes = bytes + #text + 100
  return 1
end

local function add_id(id)
  local heads = call('ZRANGE', SCHED .. id, 0, most - 1, 'WITHSCORES')
  if not heads[1] then return end
  local n, read = #answer, 0
  answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = id, call('ZCARD', SCHED .. id), heads[2], 0
  for i = 1, #heads, 2 do
    if i > 1 and bytes >= MOST then break end
    read = read + add(heads[i], id, heads[i], heads[i + 1])
  end
  answer[n + 4] = read
end

for i = 4, #ARGV do
  if bytes >= MOST then break end
  local name = ARGV[i]
  if names == 'ids' then add_id(name) else add(name, sub(name, 9), sub(name, 1, 8), call('ZSCORE', SCHEDULED, name)) end
  answer[1] = i - 3
end
return answer
