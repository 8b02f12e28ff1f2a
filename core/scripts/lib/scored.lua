-- library: scored - ends a run whose score is remembered. It needs note, record, outcome and FOLD; remember and remove_behind are
-- the functions remember_score and remove_stale of scores.

-- A run is done whose score is to be remembered, of which `digit` are the flags. If much that waits behind it may be stale,
-- a later call goes on: until then the id is uniting, with a record that is empty.
local function finish_scored(id, digit, run, score, time)
  processed = processed + 1
  note(id, EVENT_DONE, tonumber(sub(run, 3)))
  score = remember(id, score, time)
  local newer = has_next and call('HGET', NEXT, id)
  local following = newer and remove_behind(id, read(newer), score, 0)
  if not following then finish(id, digit) return end
  if digit % RUN_DELETED == RUN_SPILLED then call('UNLINK', first.spill .. id, first.map .. id) end
  local r = {place = PLACE_DUE, due = now, retry = -1, mark = MARK_NONE, error = '', entries = {}}
  unite_later(id, r, FOLD, digit)
end
