-- include: prelude keys record admin
-- PERFORM_IDS: chosen ids that are due later become due now; retry_count stays. Of a running id, what waits behind it.
-- KEYS: the shard's
-- ARGV: 1 generation, 2.. ids, at most 1,000
-- Returns the number of ids that were due later. Parked ones stay parked.
local ids = chosen(2)
probe()
local runs, waiting, behind = look_at_runs(ids), look(first, ids), look(second, ids)
open_for_writing()
local changed = 0
for i = 1, #ids do
  local id = ids[i]
  local store = runs[id] and second or first
  local r = (runs[id] and behind or waiting)[id]
  if r and is_due_later(r) then
    perform_at(now, store, id, r)
    note(id, EVENT_DUE_NOW)
    changed = changed + 1
  end
end
if changed > 0 then
  note_due()
  save()
end
return changed
