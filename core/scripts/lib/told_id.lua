-- library: told_id - of which ids the notices tell, a slice a call. It needs notices.

-- The entries of `tellers` behind the cursor ('0' at first), in their order, by entry the id, or false where there is no such
-- notice; and the cursor of the next slice ('0' at the end): the last entry that was looked at, in hexadecimal. Which id a notice
-- is of stands in front of its payloads, so all of it is read.
local function told_ids(cursor)
  local SLICE, BYTES = 10, 1048576
  local after = string.gsub(cursor, '%x%x', function(digits) return char(tonumber(digits, 16)) end)
  local entries = call('ZRANGE', TELLERS, cursor == '0' and '-' or '(' .. after, '+', 'BYLEX', 'LIMIT', 0, SLICE)
  local looked, ids, bytes = {}, {}, 0
  for i = 1, #entries do
    if bytes >= BYTES then break end
    local notice = call('HGET', NOTICES, sub(entries[i], -8)) or ''
    bytes = bytes + #notice
    looked[i], ids[i] = entries[i], #notice >= 4 and sub(notice, 5, 4 + unpack_struct('<I4', notice))
  end
  if #looked == #entries and #entries < SLICE then return looked, ids, '0' end
  return looked, ids, (string.gsub(looked[#looked], '.', function(letter) return format('%02x', byte(letter)) end))
end
