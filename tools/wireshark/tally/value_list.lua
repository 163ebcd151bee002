-- A packet's int32 values: one item of bytes, and below it the first few as numbers. A packet has up to 2,224, and
-- Wireshark keeps an item for each of all packets that it shows.

-- at: of the first value; count: as announced; all, one: fields; most: how many numbers.
return function(tree, tvb, at, count, all, one, most)
  local there = math.min(count, math.floor((tvb:len() - at) / 4))
  if there <= 0 then return end
  local shown = math.min(there, most)
  local item = tree:add(all, tvb(at, 4 * there))
  item:set_text(string.format("Values: %d, of which %d are shown", there, shown))
  for i = 0, shown - 1 do
    item:add(one, tvb(at + 4 * i, 4)):prepend_text(string.format("[%d] ", i))
  end
end
