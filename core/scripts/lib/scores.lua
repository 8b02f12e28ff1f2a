-- library: scores - for queues with remember_score: the highest score that was given to a payload of an id's runs that were done. It is
-- kept that long after the run, and jobs whose own score is not above it are stale. It needs note and record.
--
-- scores: hash id -> score d, end d (microseconds); scoreends: zset id -> the same end. What is over is removed by those who add, twice
-- as fast as they add; both keys expire when the last of it is over, so nothing stays where nobody adds any more.
local SCORES, SCORE_ENDS = PREFIX .. 'scores', PREFIX .. 'scoreends'

-- A key of the wrong type ends the script here, before anything is written.
local function probe_scores() call('HLEN', SCORES) call('ZCARD', SCORE_ENDS) end

-- The scores that are remembered of ids, by id, and until when.
local function scores_of(ids)
  local found, until_when, texts = {}, {}, ids[1] and call('HMGET', SCORES, unpack(ids)) or ids
  for i = 1, #ids do
    if texts[i] and #texts[i] == 16 then
      local score, ends = unpack_struct('<dd', texts[i])
      if ends > now and score == score then found[ids[i]], until_when[ids[i]] = score, ends end
    end
  end
  return found, until_when
end

local function forget_scores(count)
  local ids = call('ZRANGEBYSCORE', SCORE_ENDS, '-inf', format('%.0f', now), 'LIMIT', 0, count)
  if not ids[1] then return end
  call('HDEL', SCORES, unpack(ids))
  call('ZREM', SCORE_ENDS, unpack(ids))
end

-- Remembers the score of a run for `time` microseconds. While a higher one is kept, that one stays as it is; the same one is kept until
-- the later of both ends. Returns the score that is kept.
local function remember_score(id, score, time)
  forget_scores(2)
  local known, known_ends = scores_of({id})
  known, known_ends = known[id], known_ends[id]
  if known and known > score then return known end
  local ends = now + time
  if known == score then ends = max(ends, known_ends) end
  local left = math.ceil((ends - now) / 1000) + 1
  call('HSET', SCORES, id, pack('<dd', score, ends))
  call('ZADD', SCORE_ENDS, format('%.0f', ends), id)
  for _, key in ipairs({SCORES, SCORE_ENDS}) do
    if call('PTTL', key) < left then call('PEXPIRE', key, left) end
  end
  return score
end

-- Removes stale payloads from the record n that waits behind the run of an id, of a spilled one no more than this call may yet move.
-- Those before the place `from` were looked at. Returns the place where to go on, or nil at the end. Where something of the record
-- comes from the morgue, all of it stays: an operator wants it to run.
local function remove_stale(id, n, score, from)
  if n.delivered then return nil end
  local entries, old, kept, step, within = n.entries, {}, {}, nil, nil
  if not entries then
    within = call('ZCOUNT', second.spill .. id, '-inf', format('%.17g', score)) - from
    step = min(within, portion(n), may_move)
    entries = step > 0 and spilled_entries(second, id, from, step) or {}
    may_move = may_move - #entries
  end
  for i = 1, #entries do
    local list = entries[i].score <= score and has_own_score(entries[i]) and old or kept
    list[#list + 1] = entries[i]
  end
  if old[1] then
    note(id, EVENT_STALE, #old)
    if n.entries then n.entries = kept else remove_spilled(second, id, n, old) end
    if empty(n) then forget(second, id, n) else rewrite(second, id, n) end
  end
  stale = stale + #old
  return step and step < within and from + #kept or nil
end
