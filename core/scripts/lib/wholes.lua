-- library: wholes - for a settle: ends the runs of whole claims that nobody has touched: what they took is done, and nothing waits behind
-- it. It makes no function. plain: the fences of the claims; entries: what claims has of them. It changes held and processed
local gone = {}
for i = 1, #plain do
  local ids = ids_of(entries[i])
  for k = 1, #ids do gone[#gone + 1] = ids[k] end
  if #gone > 2000 then
    call('HDEL', JOBS, unpack(gone))
    gone = {}
  end
  for k = 1, events and #ids or 0 do events[#events + 1] = {ids[k], EVENT_DONE, tonumber(plain[i])} end
  held, processed = held - #ids, processed + #ids
end
if gone[1] then call('HDEL', JOBS, unpack(gone)) end
if plain[1] then call('HDEL', CLAIMS, unpack(plain)) end
