-- library: push_token - for a script that pushes: ends it if this client has sent the same call, or a later one, before. KEYS and ARGV
-- are those of push.lua
local SEQUENCE = ARGV[2]
local token = call('GET', KEYS[3])
if token then
  local sequence = string.match(token, '^%d+')
  if sequence == SEQUENCE then
    call('PEXPIRE', KEYS[3], PUSH_TOKEN_MS)
    return sub(token, #sequence + 2)
  end
  if tonumber(sequence) > tonumber(SEQUENCE) then return error_reply('STALE push') end
end
