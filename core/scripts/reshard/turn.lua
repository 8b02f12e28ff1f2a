-- TURN: gives a shard another layout of its queue. No id, run or lease changes by that. It stands alone, because the prelude refuses a shard
-- of another generation.
-- KEYS: the shard's
-- ARGV: 1 the text of the layout
-- A shard that the queue gets by this layout is paused if, and only if, the queue was when the move began; what it was in an
-- earlier layout does not count.
-- A shard that was closed for the deletion of an earlier layout (close.lua) is opened: who deletes that is refused from then on.
-- A state that was lost may have been made anew by another script, which does not know that ids leave the shard. Then the turn notes that
-- again, and the shard keeps what it has noted of this layout, because a batch that has come may be sent again. The mark is raised, because
-- ids may have come back to jobs behind a scan and did not raise it.
-- Poppers that sleep are woken: they listen to the channels of the shards that the queue had when they fell asleep.
-- Returns {'OK', or 'SAME': it has this layout, 'OPEN': a batch is open, which is to be brought to its end before, 'NEWER': it has a later
--   layout, or is closed for the deletion of this one or a later one; its generation, the text of its layout}
local call, match, pack, format = redis.call, string.match, struct.pack, string.format
local STATE, PREFIX = KEYS[1], string.sub(KEYS[1], 1, -6)
local RESHARD, LEAVING = PREFIX .. 'reshard', PREFIX .. 'leaving'
local TEXT = ARGV[1]
local generation, old, paused = match(TEXT, '^(%d+) %d+ 4 (%d+) %d+ ?(%l*)$')
if not generation or paused ~= '' and paused ~= 'paused' then generation, old = match(TEXT, '^(%d+) %d+ 3$'), '0' end
local shard = tonumber(match(PREFIX, '/(%d+)}:$'))
if not generation or not shard then return redis.error_reply('ERR wrong layout') end
generation, old = tonumber(generation), tonumber(old)
local is_new = shard >= old and old > 0

local state, text = call('GET', STATE), call('HGET', RESHARD, '')
local has = state and struct.unpack('<d', state) or 0
if math.abs(has) > generation then return {'NEWER', format('%.0f', has), text or ''} end
local was_turned = text == TEXT
local is_source = state and string.byte(state, STATE_FLAGS + 1) % (2 * FLAG_SOURCE) >= FLAG_SOURCE
if has == generation and was_turned and is_source == (shard < old) then return {'SAME', format('%.0f', has), text} end
if not was_turned and has < generation and call('EXISTS', LEAVING) == 1 then return {'OPEN', format('%.0f', has), text or ''} end
local woken = false
local ids = shard < old and math.max(call('HLEN', PREFIX .. 'jobs') + call('HLEN', PREFIX .. 'dead'), call('ZCARD', PREFIX .. 'scheduled'),
  call('HLEN', PREFIX .. 'scores'), call('ZCARD', PREFIX .. 'traced'))

if state then
  local flags = string.byte(state, STATE_FLAGS + 1)
  local function set(flag, wanted)
    local has_it = flags % (2 * flag) >= flag
    if has_it ~= wanted then flags = flags + (wanted and flag or -flag) end
  end
  set(FLAG_SOURCE, shard < old)
  if is_new and has < generation then set(FLAG_PAUSED, paused == 'paused') end
  local clock = call('TIME')
  if struct.unpack('<d', state, STATE_ASLEEP + 1) > clock[1] * 1000000 + clock[2] then
    state = string.sub(state, 1, STATE_ASLEEP) .. pack('<d', 0) .. string.sub(state, STATE_ASLEEP + 9)
    woken = true
  end
  state = pack('<d', generation) .. string.sub(state, 9, STATE_FLAGS) .. string.char(flags) .. string.sub(state, STATE_FLAGS + 2)
else
  local flags = (shard < old and FLAG_SOURCE or 0) + (is_new and paused == 'paused' and FLAG_PAUSED or 0)
  state = pack(STATE_FORMAT, generation, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, flags, 9e15, 0, 0, 0, 0, 9e15, 0, 0)
end
if was_turned then
  call('HDEL', RESHARD, '-') -- a write that Redis allows at maxmemory
  -- include apart: raise_mark
else
  call('DEL', RESHARD) -- the same
  call('HSET', RESHARD, '', TEXT)
  if ids then call('HSET', RESHARD, 'ids', ids) end
end
call('SET', STATE, state)
if woken then redis.pcall('PUBLISH', PREFIX .. 'wake', '') end -- best effort: see owner.lua
return {'OK', format('%.0f', generation), TEXT}
