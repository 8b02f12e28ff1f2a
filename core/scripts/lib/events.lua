-- library: events - writes `events`, a list of {id, kind, number, text}, into the histories of ids. It has no functions, as the prelude.
--   events:ID  list  the last `history` events of an id, the latest last; it goes seven days after the last one
--   traced     zset  id -> microseconds of its last event: which lists there are, for who removes or checks them
-- A history is best effort: a key of a wrong type must not end a script behind its first write, so nothing here raises.
if events and events[1] then
  local try, KEPT, traced = redis.pcall, 604800000, PREFIX .. 'traced'
  local lists, noted = {}, {}
  for i = 1, #events do
    local event = events[i]
    local id, text = event[1], event[4] or ''
    if not lists[id] then lists[id], noted[#noted + 1] = {}, id end
    if #text > EVENT_TEXT then
      -- Not within a character.
      local to = EVENT_TEXT
      while to > EVENT_TEXT - 3 and byte(text, to + 1) >= 128 and byte(text, to + 1) < 192 do to = to - 1 end
      text = sub(text, 1, to)
    end
    lists[id][#lists[id] + 1] = pack('<Bdd', event[2], now, event[3] or 0) .. text
  end
  for from = 1, #noted, 500 do
    local times = {}
    for i = from, min(from + 499, #noted) do
      local key, packed_events = PREFIX .. 'events:' .. noted[i], lists[noted[i]]
      local length = try('RPUSH', key, unpack(packed_events, max(1, #packed_events - history + 1)))
      if type(length) == 'number' and length > history then try('LTRIM', key, -history, -1) end
      try('PEXPIRE', key, KEPT)
      times[#times + 1], times[#times + 2] = format('%.0f', now), noted[i]
    end
    try('ZADD', traced, unpack(times))
  end
  try('PEXPIRE', traced, KEPT)
  -- Twice as many entries as came may go, so the old ones do not pile up.
  local gone = try('ZRANGEBYSCORE', traced, '-inf', format('%.0f', now - KEPT * 1000), 'LIMIT', 0, min(2 * #noted, 2000))
  if gone[1] then try('ZREM', traced, unpack(gone)) end
end
