-- library: notices - what retries_exhausted is still to be told of. A notice is written by the script that ends the retries
-- and stays until the hook has returned or raised, so a process that dies in between loses none. Two keys, which no script
-- declares (as spill: and its like):
--   notices  hash  number (8 bytes) -> the notice: length of the id I4, id, number of all payloads I4, a record of form 2
--   tellers  zset  node, NUL, number: all of score 0, so they lie in the order of their bytes; the node whose hook is to be
--                  called, '' for any. A node's notices have ascending numbers.
-- It needs advance and flag_as.
local NOTICES, TELLERS = PREFIX .. 'notices', PREFIX .. 'tellers'

-- A key of the wrong type ends the script here, before anything is written.
local function probe_notices() call('HLEN', NOTICES) call('ZCARD', TELLERS) end

local function teller(node, number) return node .. '\0' .. number end

-- Gives a node a notice under a new number, which it returns.
local function hand_over(node, notice)
  local number = pack('>d', advance())
  call('HSET', NOTICES, number, notice)
  call('ZADD', TELLERS, 0, teller(node, number))
  return number
end

-- Notices of a node whose number is greater than `number` ('' for all), at most `limit`.
local function notices_of(node, number, limit)
  return call('ZRANGE', TELLERS, '(' .. teller(node, number), '(' .. node .. '\1', 'BYLEX', 'LIMIT', 0, limit)
end
