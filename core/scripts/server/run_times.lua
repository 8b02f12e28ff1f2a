-- RUN_TIMES: adds the run times that a node has counted to the histogram of the queue: since the queue was made, and by steps of time.
-- KEYS: 1 layout (of a queue that is deleted nothing is written), 2 run times hash:
--         'total' -> the sum in microseconds <d, then for each bucket that holds calls: bucket B, calls <d;
--         'LENGTH:PLACE' -> of one step: its number (of its length in seconds, since 1970) <I4, then for each bucket that holds
--           calls: bucket B, calls <I4; PLACE is the number modulo the steps that are kept of this length;
--         'node:PLACE' -> 'NUMBER NODE': the last call of this script by a node. Gone 8 days after the last call of this script
--       Which run times a bucket holds: core/src/model/run_times.h
-- ARGV: 1 node, 2 a place for its name, 0 to 63, 3 number of this call of the node, larger than that of its last one,
--       4 sum of the run times in microseconds, then for each bucket that is not empty: bucket, calls
-- Returns 1; 0: the queue is deleted, or this call was made before (its answer was lost). Two nodes whose names have one place
-- forget each other's last call: such a call that is sent again after the other's counts twice.
local call, floor, min = redis.call, math.floor, math.min
local LAYOUT, TIMES, NODE, NUMBER = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[3])
local STEPS = {{TIMES_FINE, TIMES_FINE_STEPS}, {TIMES_MIDDLE, TIMES_MIDDLE_STEPS}, {TIMES_COARSE, TIMES_COARSE_STEPS}}
local LARGEST = 4294967295

local function valid()
  if not TIMES or #ARGV < 4 or #ARGV > 4 + 2 * TIMES_BUCKETS or #ARGV % 2 == 1 or not string.find(ARGV[2], '^%d%d?$') then return false end
  for i = 3, #ARGV do
    local number = tonumber(ARGV[i])
    if not number or not (number >= 0 and number <= 9e15) or (i > 4 and i % 2 == 1 and (number >= TIMES_BUCKETS or number ~= floor(number))) then
      return false
    end
  end
  return true
end
if not valid() then return redis.error_reply('ERR wrong arguments') end
if call('EXISTS', LAYOUT) == 0 then return 0 end

local now, place = tonumber(call('TIME')[1]), 'node:' .. ARGV[2]
local fields = {place, 'total'}
for i = 1, #STEPS do
  fields[i + 2] = string.format('%.0f:%.0f', STEPS[i][1], floor(now / STEPS[i][1]) % STEPS[i][2])
end
local values = call('HMGET', TIMES, unpack(fields))
local number, node = string.match(values[1] or '', '^(%d+) (.*)$')
if node == NODE and tonumber(number) >= NUMBER then return 0 end

-- The counts of ARGV on top of those in text, packed. size: bytes of a bucket and its count.
local function with_more(text, from, format, size, most)
  local counts, parts = {}, {}
  for at = from, #text - size + 1, size do
    local bucket, count = struct.unpack(format, text, at)
    if count >= 0 and count <= 9e15 then counts[bucket] = count end
  end
  for i = 5, #ARGV, 2 do
    local bucket = tonumber(ARGV[i])
    counts[bucket] = (counts[bucket] or 0) + tonumber(ARGV[i + 1])
  end
  for bucket = 0, TIMES_BUCKETS - 1 do
    if counts[bucket] then parts[#parts + 1] = struct.pack(format, bucket, min(counts[bucket], most)) end
  end
  return table.concat(parts)
end

local total = values[2] or ''
local sum = #total >= 8 and struct.unpack('<d', total) or 0
if not (sum >= 0 and sum <= 9e18) then sum = 0 end
local written = {place, string.format('%.0f %s', NUMBER, NODE),
  'total', struct.pack('<d', sum + tonumber(ARGV[4])) .. with_more(total, 9, '<Bd', 9, 9e15)}
for i = 1, #STEPS do
  local step, kept = floor(now / STEPS[i][1]), values[i + 2] or ''
  if #kept < 4 or struct.unpack('<I4', kept) ~= step then kept = '' end
  written[#written + 1] = fields[i + 2]
  written[#written + 1] = struct.pack('<I4', step) .. with_more(kept, 5, '<BI4', 5, LARGEST)
end
call('PEXPIRE', TIMES, 691200000) -- once before, too: a write that needs no memory, after which a full Redis lets the script write on
call('HSET', TIMES, unpack(written))
call('PEXPIRE', TIMES, 691200000)
return 1
