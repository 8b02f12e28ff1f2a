-- library: moving - while ids move: which ids lie in another shard by the new number of shards. resharding.md tells of the protocol.
--
-- reshard  hash  '' -> the text of the layout that turn.lua gave the shard; 'mark' -> a number that ids raise which come back to a kind of
--                key (note_return); 'out' -> no id is to leave it any more, if none comes back (is_out.lua); 'in/SHARD' -> the sequence
--                of the last batch that came from that shard; of a shard that ids leave: 'ids' -> how many there were at the turn, of
--                any kind, 'moved' -> how many have left since
-- leaving  hash  an open batch: '' -> its sequence, id -> what lay here of the id, as depart.lua packs it
-- moving   zset  id -> due: ids of jobs that no claim takes, because they wait for a batch
-- A shard that was never turned has none of them.
-- include: flags
local RESHARD, LEAVING = PREFIX .. 'reshard', PREFIX .. 'leaving'

-- The numbers of shards of the layout to which the shard was turned: the new one, and the one that ids leave, nil while none move.
local function shards_of_layout()
  local shards, old = string.match(call('HGET', RESHARD, '') or '', '^%d+ (%d+) 4 (%d+)')
  old = tonumber(old) or 0
  return tonumber(shards), old > 0 and old or nil
end

-- zlib's CRC-32, four bits at a time: a table for eight would take longer to make than it saves.
local crc32
do
  local table_of, bxor, band, rshift = {}, bit.bxor, bit.band, bit.rshift
  function crc32(text)
    for i = 0, table_of[0] and -1 or 15 do -- at the first call
      local c = i
      for _ = 1, 4 do c = band(c, 1) == 1 and bxor(rshift(c, 1), 0xEDB88320) or rshift(c, 1) end
      table_of[i] = c
    end
    local crc = -1
    for i = 1, #text do
      local b = byte(text, i)
      crc = bxor(table_of[band(bxor(crc, b), 15)], rshift(crc, 4))
      crc = bxor(table_of[band(bxor(crc, rshift(b, 4)), 15)], rshift(crc, 4))
    end
    return bit.bnot(crc) % 4294967296
  end
end

-- The function that says whether an id of this shard is to leave it; nil where none is.
local function foreign_test()
  if not is(FLAG_SOURCE) then return nil end
  local shards, old = shards_of_layout()
  local mine = tonumber(string.match(PREFIX, '/(%d+)}:$'))
  if not old or mine >= old then return nil end
  return function(name) return crc32(name) % shards ~= mine end
end

-- To be called when an id gets something of a kind of key and had only later kinds, in the order of foreign.lua: a mover may have looked
-- through that kind already, and what the id had may be gone before the mover comes to it. A push does the same for all that it adds.
local function note_return(whose)
  local is_foreign = foreign_test()
  if is_foreign and is_foreign(whose) then
    -- include apart: raise_mark
  end
end
