-- library: notify - writes the notices that notices.lua describes. It needs record.
-- include: notices
local NOTICE_BYTES = 262144

-- The payloads of a notice in their order, as many as fit into NOTICE_BYTES, at least one: read(from) gives the entries from
-- that place, some at a time, none at the end.
local function entries_of(read)
  local entries, bytes = {}, 0
  repeat
    local part = read(#entries)
    for i = 1, #part do
      bytes = bytes + #part[i].payload + #part[i].context
      if entries[1] and bytes > NOTICE_BYTES then return entries end
      entries[#entries + 1] = part[i]
    end
  until not part[1]
  return entries
end

-- node: who tells it, '' for any; count: of all payloads that the retries ended for; r: the record's retry and error.
local function notify(node, id, r, count, entries)
  local out = {pack('<I4c0I4', #id, id, count), header({place = PLACE_READY, due = now, retry = r.retry, mark = MARK_NONE, error = r.error}, RECORD_FULL, #entries)}
  for i = 1, #entries do add_entry(out, entries[i]) end
  hand_over(node, table.concat(out))
  flag_as(FLAG_NOTICED, true)
end

-- Of payloads that were taken out of a record.
local function notify_entries(node, id, r, entries)
  notify(node, id, r, #entries, entries_of(function(from) return from == 0 and entries or {} end))
end

-- Of a record as a whole.
local function notify_record(node, store, id, r)
  local told = {retry = r.retry, error = error_of(store, id, r)}
  if r.entries then notify_entries(node, id, told, r.entries) return end
  local step = min(20, portion(r))
  notify(node, id, told, r.count, entries_of(function(from) return spilled_entries(store, id, from, step) end))
end
