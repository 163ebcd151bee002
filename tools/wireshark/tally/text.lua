-- Texts of a given length.

-- A text of `bytes` bytes at `at`, as far as it was captured; what was read, without control characters.
return function(tree, tvb, at, bytes, field)
  local there = math.min(bytes, tvb:len() - at)
  if there <= 0 then return "" end
  local range = tvb(at, there)
  tree:add(field, range, range:string(ENC_UTF_8))
  return (range:string(ENC_UTF_8):gsub("%c", "."))
end
