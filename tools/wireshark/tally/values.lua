-- The values behind the header, of 4 or 2 bytes, and whether sum1 and sum2 fit them.

local names = require("tally.names")
local header = require("tally.header")
local remarks = require("tally.remarks")
local sums = require("tally.sums")
local value_list = require("tally.value_list")

local values = {}

local f = {
  all = ProtoField.bytes("tally.values", "Values"),
  one = ProtoField.int32("tally.value", "Value"),
  exponent = ProtoField.int8("tally.run.exponent", "Block exponent of a chunk"),
  sum_status = ProtoField.uint8("tally.sum.status", "Sums status", base.DEC, header.statuses),
}
values.fields = f

-- most: how many of them as numbers.
function values.add(tree, tvb, p, most)
  local size = names.value_bytes(p.dtype)
  value_list(tree, tvb, names.header_bytes, names.values_bytes(p) / size, f.all, f.one, most, size)
end

-- Of a ZERORUN that has one for each of its chunks. Returns how many bytes should be there.
function values.add_exponents(tree, tvb, p)
  if p.payload_bytes == 0 then return 0 end
  for i, bit_number in ipairs(p.contributors) do
    local at = names.header_bytes + i - 1
    if at < tvb:len() then
      tree:add(f.exponent, tvb(at, 1)):append_text(string.format(" (bit %d)", bit_number))
    end
  end
  return math.ceil(#p.contributors / 4) * 4
end

-- Whose keys are in sum1. A server's RESULT names who shall have it, but its sums are those of all members.
local function whose_keys(p, generation)
  if p.kind == names.of.RESULT and p.rank ~= names.box_rank then return generation.members end
  return p.contributors
end

-- generation: { number = UInt64, members = ranks } of the packet's job and epoch, or nil: then sum2 alone is
-- verified, for the keys in sum1 follow from the generation, which only JOINED tells.
function values.verify(items, tvb, p, generation)
  local bytes = names.values_bytes(p)
  if names.is_sparse(p) then
    items.sum1:add(f.sum_status, tvb(40, 8), header.UNVERIFIED):set_generated():append_text(" (rows are left out)")
    return
  end
  if bytes > tvb:len() - names.header_bytes then
    items.sum1:add(f.sum_status, tvb(40, 8), header.UNVERIFIED):set_generated():append_text(" (values not captured)")
    return
  end
  local sum1, sum2 = 0, 0
  if bytes > 0 then
    sum1, sum2 = sums.of_values(tvb:raw(names.header_bytes, bytes), names.value_bytes(p.dtype))
  end
  local status = header.UNVERIFIED
  local why = " (sum2 is right; sum1 needs the generation, of which the capture has no JOINED)"
  if sum2 ~= p.sum2 then
    status, why = header.BAD, string.format(" (sum2 should be 0x%08x)", sum2)
  elseif generation then
    sum1 = (sum1 + sums.of_keys(generation.number, whose_keys(p, generation), p.chunk)) % 0x100000000
    status, why = header.GOOD, ""
    if sum1 ~= p.sum1 then status, why = header.BAD, string.format(" (sum1 should be 0x%08x)", sum1) end
  end
  items.sum1:add(f.sum_status, tvb(40, 8), status):set_generated():append_text(why)
  if status == header.BAD then
    p.remark = "sum"
    remarks.add(items.sum1, "sum", "The sums do not fit the values%s", why)
  end
end

return values
