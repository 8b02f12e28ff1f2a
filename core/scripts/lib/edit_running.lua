-- library: edit_running - for a settle: removes the payloads that batch.checkpoint ended from a running record, and replaces the payload that
-- batch.snooze gave anew.
-- It needs note, record, outcome and FOLD.

-- Removes the payloads of a running record up to the one with this stamp and score, that one included, in the order in which the
-- worker got them. What is left counts as never failed, and as what no process has died with. Of a spilled record at most `expected`
-- payloads, and no more than this call may yet move. Returns '1': none of them is left; '2': some are, send it again; then the entries
-- that it removed.
local function checkpoint(id, r, stamp, score, expected)
  local function is_behind(e) return e.score > score or e.score == score and e.stamp > stamp end
  local done, more = {}, false
  if r.entries then
    local left = {}
    for i = 1, #r.entries do
      local list = is_behind(r.entries[i]) and left or done
      list[#list + 1] = r.entries[i]
    end
    r.entries = left
  else
    local share = portion(r)
    local step = min(expected, math.floor(share * may_move / PORTION))
    if step < 1 then return '2' end -- others of this call have moved too much
    local entries = spilled_entries(first, id, 0, step)
    while entries[#done + 1] and not is_behind(entries[#done + 1]) do done[#done + 1] = entries[#done + 1] end
    remove_spilled(first, id, r, done)
    may_move = may_move - math.ceil(PORTION * #entries / share)
    -- After a failover there may be more of them than the caller expects.
    more = done[1] and #done == #entries and call('ZCOUNT', first.spill .. id, '-inf', format('%.17g', score)) > 0
    if r.cut then call('HDEL', first.map .. id, 'e') end
  end
  r.retry, r.delivered = -1, true
  if done[1] and r.mark ~= MARK_NONE then r.mark, r.place = MARK_NONE, PLACE_DUE end
  set_error(r, '')
  rewrite(first, id, r)
  if done[1] then note(id, EVENT_CHECKPOINT, #done) end
  return more and '2' or '1', done
end

-- The payload with this stamp, the first of the record, becomes another, and keeps its score, its arrival and its context. In a queue that
-- folds equal payloads, those that are equal to the new one fold into it. A payload that is not there is left alone.
local function replace(id, r, stamp, payload)
  local e = pick(id, r, r.entries or spilled_entries(first, id, 0, 1), {[stamp] = true})[1]
  if not e then return end
  e.payload, e.digest, e.member, r.by_payload = payload, nil, nil, nil
  fold_entries(first, id, r, {e}, FOLD)
end
