-- library: told_id - of which id a notice tells. It needs notices.

-- nil if there is no such notice.
local function told_id(number)
  local notice = call('HGET', NOTICES, number)
  if not notice or #notice < 4 then return nil end
  local length = unpack_struct('<I4', notice)
  return sub(notice, 5, 4 + length)
end
