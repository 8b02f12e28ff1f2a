-- RUNNING: some of the ids that run in a shard.
-- KEYS: 1 the shard's state; the others' names begin alike, with the same hash tag
-- ARGV: 1 how many, at most 1,000
-- Returns {owner, id, run, payloads, ...}
local call = redis.call
local state, prefix = call('GET', KEYS[1]), string.sub(KEYS[1], 1, -6)
local RUNNING, CLAIMS = prefix .. 'running', prefix .. 'claims'
local held = state and struct.unpack('<d', state, STATE_HELD + 1) or 0
-- include: runs
local answer = {state and string.sub(state, STATE_OWNER + 1) or ''}
local most, ids, runs = tonumber(ARGV[1]), {}, {}
local others = 1 + math.min(1000, call('ZCARD', prefix .. 'uniting')) -- the field '' and ids that are uniting lie among the runs
local flat = scan_runs('0', most + others)[2]
for i = 1, #flat, 2 do
  if #ids < most then ids[#ids + 1], runs[#runs + 1] = flat[i], flat[i + 1] end
end
local records = ids[1] and call('HMGET', prefix .. 'jobs', unpack(ids)) or ids
for i = 1, #ids do
  local record, count = records[i], 0
  if record then count = string.byte(record) >= RECORD_FULL and select(4, struct.unpack('<di4BI4', record, RECORD_DUE + 1)) or 1 end
  local at = #answer
  answer[at + 1], answer[at + 2], answer[at + 3] = ids[i], runs[i], count
end
return answer
