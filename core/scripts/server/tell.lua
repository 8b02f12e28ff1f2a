-- include: prelude change flags notices
-- TELL: gives a node the notices that its retries_exhausted is to be told of: those of its own that it has not seen, and, where
-- it owns the shard, those of nobody and of dead nodes, which become its own. Those of nobody need no knowledge of who lives.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 node, 3 its lease, 4 number of the last notice that it has ('' for none), 5 limit,
--       6.. the living nodes; without any, nothing of other nodes is taken
-- Returns {more, left, number, notice, ...}: more is 1 when the next call may give something at once; left counts all notices of
--   the shard. An answer stops at 1 MiB. Sent twice, the second answer gives again what the first took over.
local me, limit = ARGV[2], tonumber(ARGV[5])
if not limit or limit < 1 or limit % 1 ~= 0 then return error_reply('ERR wrong arguments') end
local BYTES = 1048576
probe_notices()
open_for_writing()

local answer, bytes, given = {0, 0}, 0, 0
local function is_full() return given == limit or bytes >= BYTES end

local function give(number, notice)
  given, bytes = given + 1, bytes + #notice
  answer[#answer + 1], answer[#answer + 2] = number, notice
end

-- The number in an entry of `tellers`.
local function number_in(entry) return sub(entry, -8) end

local function give_own()
  local own = notices_of(me, ARGV[4], limit)
  for i = 1, #own do
    if is_full() then return end
    local number = number_in(own[i])
    local notice = call('HGET', NOTICES, number)
    if notice then give(number, notice) else call('ZREM', TELLERS, own[i]) end
  end
end

local function take_over(node)
  local theirs = notices_of(node, '', limit - given)
  for i = 1, #theirs do
    if is_full() then return end
    local number = number_in(theirs[i])
    local notice = call('HGET', NOTICES, number)
    call('ZREM', TELLERS, theirs[i])
    call('HDEL', NOTICES, number)
    if notice then give(hand_over(me, notice), notice) end
  end
end

-- Goes from node to node through the entries. One that is no teller, as a foreign command can write it, goes: it would be the next
-- behind its own name again, for ever.
local function take_over_all()
  local living, from = {[me] = true}, '-'
  for i = 6, #ARGV do living[ARGV[i]] = true end
  while not is_full() do
    local entry = call('ZRANGE', TELLERS, from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    if not entry then return end
    if byte(entry, -9) == 0 then
      local node = sub(entry, 1, -10)
      if not living[node] then take_over(node) end
      from = '(' .. node .. '\1'
    else
      call('ZREM', TELLERS, entry)
    end
  end
end

give_own()
if owner == me and lease == tonumber(ARGV[3]) then
  if #ARGV > 5 then take_over_all() else take_over('') end
end
answer[1], answer[2] = is_full() and 1 or 0, call('ZCARD', TELLERS)
if answer[2] == 0 then flag_as(FLAG_NOTICED, false) end
save()
return answer
