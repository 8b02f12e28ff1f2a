-- include: prelude change
-- CHECK_SCORES: do the keys of remembered scores agree (lib/scores.lua), and will they expire? With repair, mends them.
-- KEYS: the shard's
-- ARGV: as check.lua's: 1 generation, 2 part: scores or scoreends, 3 cursor ('0' at first), 4 '1' to repair
-- Returns as check.lua, with the ids of scores
local part, cursor, repair, id = ARGV[2], ARGV[3], ARGV[4] == '1', nil
local looked, present = 0, {}
-- include: finding
local SCORES, SCORE_ENDS = PREFIX .. 'scores', PREFIX .. 'scoreends'

-- When the score that this text tells is forgotten, or nil where it cannot be read.
local function end_of(text)
  if #text ~= 16 then return nil end
  local score, time = unpack_struct('<dd', text)
  return score == score and math.abs(score) < math.huge and time >= 0 and time <= FOREVER and time or nil
end

local function check_score(whose, text)
  local time = end_of(text)
  if not time then
    find('unreadable', whose, 'score cannot be read', function() call('HDEL', SCORES, whose) call('ZREM', SCORE_ENDS, whose) end)
  elseif tonumber(call('ZSCORE', SCORE_ENDS, whose) or nil) ~= tonumber(format('%.0f', time)) then
    find('index', whose, 'missing in scoreends, or has another number', function() call('ZADD', SCORE_ENDS, format('%.0f', time), whose) end)
  end
end

local function check_end(whose)
  if call('HEXISTS', SCORES, whose) == 1 then return end
  find('stale', whose, 'entry in scoreends leads to nothing', function() call('ZREM', SCORE_ENDS, whose) end)
end

-- Both keys are to be gone when the last score is forgotten.
local function check_expiry(key)
  if call('PTTL', key) ~= -1 then return end
  find('expiry', '', part .. ' would stay for ever', function()
    local last = tonumber(call('ZRANGE', SCORE_ENDS, -1, -1, 'WITHSCORES')[2]) or now
    call('PEXPIRE', key, format('%.0f', min(max(last - now, 0), FOREVER) / 1000 + 1))
  end)
end

if is_of(SCORES, 'hash') and is_of(SCORE_ENDS, 'zset') then
  local key = part == 'scores' and SCORES or SCORE_ENDS
  local page = call(part == 'scores' and 'HSCAN' or 'ZSCAN', key, cursor, 'COUNT', 50)
  for i = 1, #page[2], 2 do
    if part == 'scores' then
      check_score(page[2][i], page[2][i + 1])
      present[#present + 1] = page[2][i]
    else
      check_end(page[2][i])
    end
  end
  cursor, looked = page[1], #page[2] / 2
  if cursor == '0' then check_expiry(key) end
else
  cursor = '0'
end
if fixes[1] then
  open_for_writing()
  for i = 1, #fixes do fixes[i]() end
  save()
end
return {cursor, looked, found, {}, present}
