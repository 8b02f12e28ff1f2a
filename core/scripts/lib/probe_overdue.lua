-- library: probe_overdue - reads the keys that overdue.lua may write, before the first write of the call: a key of the wrong type ends the
-- script here. It needs record.

-- list: id, end, ...; hooked: retries_exhausted may be told.
local function probe_overdue(list, hooked)
  for i = 1, #list, 2 do
    local id = {list[i]}
    probe_spill(first, id)
    probe_spill(second, id)
    probe_spill(morgue, id)
  end
  if hooked then call('HLEN', PREFIX .. 'notices') call('ZCARD', PREFIX .. 'tellers') end
end
