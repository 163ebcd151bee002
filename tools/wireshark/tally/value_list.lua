-- A packet's values: one item of bytes, and below it the first few as numbers. A packet has thousands, and
-- Wireshark keeps an item for each of all packets that it shows.

-- at: of the first value; count: as announced; all, one: fields; most: how many numbers;
-- size: bytes of a value, 4 if it is not said.
return function(tree, tvb, at, count, all, one, most, size)
  size = size or 4
  local there = math.min(count, math.floor((tvb:len() - at) / size))
  if there <= 0 then return end
  local shown = math.min(there, most)
  local item = tree:add(all, tvb(at, size * there))
  item:set_text(string.format("Values: %d, of which %d are shown", there, shown))
  for i = 0, shown - 1 do
    item:add(one, tvb(at + size * i, size)):prepend_text(string.format("[%d] ", i))
  end
end
