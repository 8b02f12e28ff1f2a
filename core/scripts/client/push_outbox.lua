-- include: prelude
-- PUSH_OUTBOX: a push of numbered jobs, those of an outbox. The shard keeps the number of the last job that it took from the outbox, for
-- ever, and takes no job whose number is not above it: so a job that is pushed again, however late and by whomever, is there once.
-- KEYS: the shard's (prelude), 16 token: as push's, 17 the number of the last job of this outbox that this shard has taken
-- ARGV: as push's with 3 values a job, and behind the three values of each job its number: 1 or more, ascending
-- Returns what push returns; jobs that the shard had taken before count as taken, and if there are any, the answer ends with
--   'o' and how many they are
-- Error replies: STALE push (a later sequence came first: this one is an echo of a dead connection)
-- include: push_token
local ARGV, SKIPPED = ARGV, 0
do -- a block of its own: Lua allows 200 local variables, and push_jobs has nearly as many
  local LARGEST = 2 ^ 53
  if (ARGV[5] ~= '3' and ARGV[5] ~= '23') or (#ARGV - 6) % 4 ~= 0 then return error_reply('ERR wrong number of arguments') end
  local last, before = tonumber(call('GET', KEYS[17]) or 0), 0
  if not last then return error_reply('ERR wrong number of an outbox') end
  local kept, numbers = {unpack(ARGV, 1, 6)}, {}
  for i = 10, #ARGV, 4 do
    local number = tonumber(ARGV[i])
    if not (number and number > before and number <= LARGEST) then return error_reply('ERR wrong number of a job') end
    before = number
    if number > last then
      numbers[#numbers + 1] = number
      for j = i - 3, i - 1 do kept[#kept + 1] = ARGV[j] end
    else
      SKIPPED = SKIPPED + 1
    end
  end
  if not numbers[1] then
    call('SET', KEYS[17], format('%.0f', last)) -- a write: WAIT waits for what its own connection has written
    return SKIPPED .. ' 0 0 o' .. SKIPPED
  end
  ARGV, kept.numbers = kept, numbers
end

-- include: push_jobs
call('SET', KEYS[17], format('%.0f', ARGV.numbers[n]))
if SKIPPED > 0 then answer = answer .. ' o' .. SKIPPED end
call('SET', KEYS[16], SEQUENCE .. ' ' .. answer, 'PX', 60000)
return answer
