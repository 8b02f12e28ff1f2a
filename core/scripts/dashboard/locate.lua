-- LOCATE: whether a shard has an id, and where; it may lie in an open batch of a move (lib/parts.lua).
-- KEYS: 1 the shard's state; the others' names begin alike, with the same hash tag
-- ARGV: 1 generation, 2 id
-- Returns {state of what waits, is parked or runs, or '', 1 if it is dead as well, else 0, 1 if it has scheduled payloads, else 0}.
-- Error replies: GENERATION n
local call = redis.call
local clock, state, id = call('TIME'), call('GET', KEYS[1]), ARGV[2]
if not state then return {'', 0, 0} end
local generation = struct.unpack('<d', state)
if math.abs(generation) ~= tonumber(ARGV[1]) then return redis.error_reply(string.format('GENERATION %.0f', generation)) end

local prefix = string.sub(KEYS[1], 1, -6)
local record, word = call('HGET', prefix .. 'jobs', id), ''
local text = call('HGET', prefix .. 'leaving', id)
local part = text and cmsgpack.unpack(string.sub(text, string.find(text, ' ', 1, true) + 1)) or {}
record = record or part.j
local RUNNING, CLAIMS = prefix .. 'running', prefix .. 'claims'
local held = struct.unpack('<d', state, STATE_HELD + 1)
-- include: runs
local run = run_of(id)
if run then
  word = is_uniting(run) and 'waiting' or 'running'
elseif record then
  local kind, due = string.byte(record), (struct.unpack('<d', record, RECORD_DUE + 1))
  local retry = kind >= RECORD_FULL and struct.unpack('<i4', record, RECORD_RETRY + 1) or -1
  local now = clock[1] * 1000000 + clock[2]
  word = ({[PLACE_PARKED] = 'parked', [PLACE_IN_DOUBT] = 'unproven'})[kind % RECORD_PLACES] or (retry >= 0 and 'retrying' or due > now and 'delayed' or 'waiting')
end
local is_dead = part.d and 1 or call('HEXISTS', prefix .. 'dead', id)
return {word, is_dead, (part.s or part.n) and 1 or call('EXISTS', prefix .. 'sched:' .. id)}
