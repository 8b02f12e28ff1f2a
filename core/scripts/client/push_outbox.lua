-- include: prelude keys
-- PUSH_OUTBOX: a push of numbered jobs, those of an outbox. The shard keeps the number and id of each job that it took from the outbox, and a
-- low-water mark: whoever pushes will not push a job of this queue again whose number is below it. A job is not taken whose number
-- is kept or is below the mark: so a job that is pushed again, however late and by whomever, is there once, also if its id has
-- moved to another shard.
-- KEYS: the shard's (prelude), 3 token: as push's, 4 outbox:NAME zset 8 bytes >d of a number, id -> the number
-- ARGV: as push's with 3 values a job, but 7 the low-water mark, and behind the three values of each job its number: 1 or more, ascending
-- Beside them: outboxes hash NAME -> low-water mark. Where that has none, the last job's number may be all that is kept: an
-- earlier version wrote it, as a string; it stands for all numbers up to it, until the mark is above it.
-- Returns what push returns; jobs that the shard had taken before count as taken, and if there are any, 'o' and how many they are
-- stands before 'k' and 'l', whose letter they are
-- Error replies: STALE push (a later sequence came first: this one is an echo of a dead connection)
-- include: push_token
local ARGV, given = ARGV, {outbox = {lows = PREFIX .. 'outboxes', name = sub(KEYS[4], #PREFIX + 8)}}

-- Notes the jobs that were taken (score, member, ...), and forgets numbers below the mark. Writes something in any case: WAIT waits for
-- what its own connection has written.
function given.outbox.note(members)
  local FORGOTTEN, outbox = 2000, given.outbox -- numbers that a call removes
  if outbox.last then
    call('SET', KEYS[4], format('%.0f', max(outbox.last, tonumber(members[#members - 1] or 0))))
    return
  end
  if outbox.is_old then call('DEL', KEYS[4]) end
  if members[1] then call('ZADD', KEYS[4], unpack(members)) end
  call('HSET', outbox.lows, outbox.name, format('%.0f', outbox.low))
  local below = call('ZRANGEBYSCORE', KEYS[4], '-inf', format('(%.0f', outbox.low), 'LIMIT', 0, FORGOTTEN)
  if below[1] then call('ZREM', KEYS[4], unpack(below)) end
end

do -- a block of its own: Lua allows 200 local variables, and push_jobs has nearly as many
  local LARGEST, total, numbers, taken, outbox = 2 ^ 53, (#ARGV - 7) / 4, {}, {}, given.outbox
  local width, step = string.match(ARGV[5], '^(%d+)(.*)$')
  local function is_number(number, least) return number and number >= least and number <= LARGEST end
  if (width ~= '3' and width ~= '23') or total < 1 or total % 1 ~= 0 then return error_reply('ERR wrong number of arguments') end
  for i = 1, total do
    numbers[i] = tonumber(ARGV[7 + 4 * i])
    if not is_number(numbers[i], (numbers[i - 1] or 0) + 1) then return error_reply('ERR wrong number of a job') end
  end

  local kept_low, low = call('HGET', outbox.lows, outbox.name), tonumber(ARGV[7])
  if not is_number(low, 0) or kept_low and not is_number(tonumber(kept_low), 0) then return error_reply('ERR wrong low-water mark of an outbox') end
  outbox.low = max(low, kept_low and tonumber(kept_low) or 0)
  outbox.is_old = not kept_low and call('TYPE', KEYS[4]).ok == 'string'
  if outbox.is_old then
    local last = tonumber(call('GET', KEYS[4]))
    if not is_number(last, 0) then return error_reply('ERR wrong number of an outbox') end
    if last >= low then
      if step ~= '' then return error_reply('ERR the numbers of this outbox are those of an earlier version, and its queue has another number of shards') end
      outbox.last = last
    end
  else
    local members = call('ZRANGEBYSCORE', KEYS[4], format('%.0f', numbers[1]), format('%.0f', numbers[total]))
    for i = 1, #members do taken[unpack_struct('>d', members[i])] = true end
  end

  local kept, places = {unpack(ARGV, 1, 6)}, {}
  given.numbers = {}
  for i = 1, total do
    local number = numbers[i]
    if not (taken[number] or number < outbox.low or outbox.last and number <= outbox.last) then
      given.numbers[#given.numbers + 1], places[#places + 1] = number, i
      for at = 4 + 4 * i, 6 + 4 * i do kept[#kept + 1] = ARGV[at] end
    end
  end
  if not places[1] then
    call('ZREM', DUE, '') -- a write that Redis allows at maxmemory
    outbox.note({})
    return total .. ' 0 0 o' .. total
  end
  if #places < total then
    places[#places + 1] = total + 1
    given.at = places
  end
  ARGV = kept
end

-- include: push_jobs
do
  local members = {}
  for i = 1, n do
    if not (elsewhere and elsewhere[i]) then
      members[#members + 1], members[#members + 2] = format('%.0f', given.numbers[i]), pack('>d', given.numbers[i]) .. ids[i]
    end
  end
  given.outbox.note(members)
end
call('SET', KEYS[3], SEQUENCE .. ' ' .. answer, 'PX', PUSH_TOKEN_MS)
return answer
