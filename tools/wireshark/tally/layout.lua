-- Fixed layouts: arrays of { name, bytes } in the order of the wire.

local layout = {}

function layout.bytes(fields)
  local total = 0
  for _, field in ipairs(fields) do total = total + field[2] end
  return total
end

-- Adds the fields from offset `at` on to the tree, as far as they were captured. Returns the items by name, where
-- it stopped, and whether all were there. A field's third word, if any, adds the item itself: f(tree, range).
function layout.add(tree, tvb, at, fields, proto_fields)
  local items = {}
  for _, field in ipairs(fields) do
    local name, bytes, add = field[1], field[2], field[3]
    if at + bytes > tvb:len() then return items, at, false end
    local range = tvb(at, bytes)
    items[name] = add and add(tree, range) or tree:add(proto_fields[name], range)
    at = at + bytes
  end
  return items, at, true
end

-- All fields of the groups, { prefix = fields }, by prefix and name, as a protocol has them.
function layout.all(groups)
  local fields = {}
  for prefix, group in pairs(groups) do
    for name, field in pairs(group) do fields[prefix .. name] = field end
  end
  return fields
end

return layout
