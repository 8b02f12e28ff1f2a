-- library: is_out - is a shard out, so that no id is to leave it any more? By the fields `out` and `mark` of its hash reshard: out.lua has
-- said so, and no id may have come back since (raise_mark.lua). An earlier version wrote 1 into `out`, whatever the mark, and its movers do
-- not look again.

local function out_at(mark) return (tonumber(mark) or 0) + 2 end

local function is_out(out, mark) return out == '1' or out and tonumber(out) == out_at(mark) end
