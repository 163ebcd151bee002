-- Bitmaps of ranks.

local ranks = {}

-- The ranks of the 8 bytes at `at`, ascending. The range must have been captured.
function ranks.of(tvb, at)
  local found = {}
  for byte = 7, 0, -1 do
    local bits = tvb(at + byte, 1):uint()
    for bit_number = 0, 7 do
      if bits % 2 == 1 then found[#found + 1] = (7 - byte) * 8 + bit_number end
      bits = math.floor(bits / 2)
    end
  end
  return found
end

-- "0-3, 7"; "nobody".
function ranks.text(list)
  local parts, i = {}, 1
  while i <= #list do
    local last = i
    while list[last + 1] == list[last] + 1 do last = last + 1 end
    parts[#parts + 1] = last == i and tostring(list[i]) or string.format("%d-%d", list[i], list[last])
    i = last + 1
  end
  return #parts > 0 and table.concat(parts, ", ") or "nobody"
end

-- "rank 3", "ranks 0-3, 7", "nobody".
function ranks.phrase(list)
  if #list == 0 then return "nobody" end
  return (#list == 1 and "rank " or "ranks ") .. ranks.text(list)
end

return ranks
