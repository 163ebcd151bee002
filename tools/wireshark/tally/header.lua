-- The 56-byte header: struct Header of include/tally/wire.h, field by field.

local names = require("tally.names")
local layout = require("tally.layout")
local ranks = require("tally.ranks")
local remarks = require("tally.remarks")
local crc32c = require("tally.crc32c")

local header = {}

header.statuses = { [0] = "Bad", [1] = "Good", [2] = "Unverified" }
header.BAD, header.GOOD, header.UNVERIFIED = 0, 1, 2

local f = {
  version = ProtoField.uint8("tally.version", "Version"),
  type = ProtoField.uint8("tally.type", "Type", base.DEC, names.type),
  flags = ProtoField.uint8("tally.flags", "Flags", base.HEX),
  retransmit = ProtoField.bool("tally.flags.retransmit", "RETRANSMIT (sent before)", 8, nil, 0x01),
  direct = ProtoField.bool("tally.flags.direct", "DIRECT (for the server)", 8, nil, 0x02),
  overflow = ProtoField.bool("tally.flags.overflow", "OVERFLOW (may have left int32)", 8, nil, 0x04),
  collision = ProtoField.bool("tally.flags.collision", "COLLISION (its slot was taken; RESULT: a server made it)", 8, nil, 0x08),
  zero = ProtoField.bool("tally.flags.zero", "ZERO (all values are 0, and left out)", 8, nil, 0x10),
  incomplete = ProtoField.bool("tally.flags.incomplete", "INCOMPLETE (lacks ranks)", 8, nil, 0x20),
  planned = ProtoField.bool("tally.flags.planned", "PLANNED (JOINED: several boxes), or SPARSE (rows left out)", 8, nil, 0x40),
  racks = ProtoField.bool("tally.flags.racks", "RACKS (JOINED: a job of racks)", 8, nil, 0x80),
  priority = ProtoField.uint8("tally.priority", "Priority"),
  class = ProtoField.uint8("tally.class", "Class", base.DEC, nil, 0xC0),
  job = ProtoField.uint16("tally.job", "Job"),
  rank = ProtoField.uint16("tally.rank", "Rank of the sender"),
  epoch = ProtoField.uint32("tally.epoch", "Epoch", base.HEX),
  chunk = ProtoField.uint32("tally.chunk", "Chunk"),
  slot = ProtoField.uint32("tally.slot", "Slot"),
  sequence = ProtoField.uint32("tally.sequence", "Sequence"),
  before = ProtoField.uint32("tally.before", "Finished before it", base.HEX),
  asker = ProtoField.uint32("tally.asker", "Rank that asked"),
  reason = ProtoField.uint32("tally.reason", "Reason", base.DEC, names.reason),
  elements = ProtoField.uint16("tally.elements", "Elements"),
  dtype = ProtoField.uint8("tally.dtype", "Type of the elements", base.DEC, names.dtype),
  exponent = ProtoField.int8("tally.exponent", "Block exponent"),
  contributors = ProtoField.uint64("tally.contributors", "Contributors", base.HEX),
  count = ProtoField.uint8("tally.contributors.count", "Number of contributors"),
  cookie = ProtoField.uint64("tally.cookie", "Cookie", base.HEX),
  sum1 = ProtoField.uint32("tally.sum1", "sum1", base.HEX),
  sum2 = ProtoField.uint32("tally.sum2", "sum2", base.HEX),
  total = ProtoField.uint32("tally.total", "Elements of the operation"),
  check = ProtoField.uint32("tally.check", "Header check", base.HEX),
  check_status = ProtoField.uint8("tally.check.status", "Header check status", base.DEC, header.statuses),
}
header.fields = f

local flag_fields = { f.retransmit, f.direct, f.overflow, f.collision, f.zero, f.incomplete, f.planned, f.racks }

-- The field called slot carries something else in some types.
local other_slots = { CONTRIBUTE = "sequence", ZERORUN = "sequence", ANSWER = "asker", REJECT = "reason", NACK = "sequence" }

local function what_slot_is(tvb)
  local kind = tvb:len() > 1 and names.type[tvb(1, 1):uint()]
  if (kind == "RESULT" or kind == "ZERORUN") and tvb:len() > 7 and tvb(6, 2):uint() == names.box_rank then return "before" end
  return other_slots[kind] or "slot"
end

local function wire_layout(tvb)
  return {
    { "version", 1 }, { "type", 1 }, { "flags", 1 }, { "priority", 1 }, { "job", 2 }, { "rank", 2 }, { "epoch", 4 },
    { "chunk", 4 }, { what_slot_is(tvb), 4 }, { "elements", 2 }, { "dtype", 1 },
    { "exponent", 1 }, { "contributors", 8 }, { "cookie", 8 }, { "sum1", 4 }, { "sum2", 4 }, { "total", 4 },
    { "check", 4 },
  }
end

local function explain_flags(item, range, p)
  for _, field in ipairs(flag_fields) do item:add(field, range) end
  local said, left = {}, p.flags
  local known = names.known_flags + (p.kind == names.of.JOINED and names.planned_flag + names.racks_flag
    or names.carries_values(p.kind) and names.sparse_flag or 0)
  for bit_number = 0, 7 do
    local flag = 2 ^ bit_number
    if left % 2 == 1 and bit.band(known, flag) ~= 0 then
      said[#said + 1] = flag == names.sparse_flag and names.is_sparse(p) and "SPARSE" or names.flag[flag]
    end
    left = math.floor(left / 2)
  end
  p.flag_text = table.concat(said, ", ")
  if #said > 0 then item:append_text(" (" .. p.flag_text .. ")") end
  if bit.band(p.flags, bit.bnot(known)) ~= 0 then remarks.add(item, "flags") end
  if p.flag_text:find("OVERFLOW") then remarks.add(item, "overflow") end
  if p.flag_text:find("INCOMPLETE") and p.kind == names.of.RESULT then remarks.add(item, "incomplete") end
end

local function explain(items, tvb, p)
  explain_flags(items.flags, tvb(2, 1), p)
  items.priority:add(f.class, tvb(3, 1))
  items.rank:append_text(string.format(" (%s)", names.rank(p.rank)))
  if p.exponent == names.no_exponent then items.exponent:append_text(" (none)") end
  if p.exponent == names.not_a_number then items.exponent:append_text(" (not a number)") end
  if p.kind == names.of.HEARTBEAT and p.rank ~= names.box_rank then
    items.contributors:append_text(" (instance of the process)")
  elseif p.kind == names.of.ZERORUN then
    items.contributors:append_text(" (bit i: the chunk i x shards behind this one)")
  else
    items.contributors:append_text(" (" .. ranks.text(p.contributors) .. ")")
    items.contributors:add(f.count, tvb(24, 8), #p.contributors):set_generated()
  end
  if not names.type[p.kind] then remarks.add(items.type, "type", "Unknown type %d", p.kind) end
  if not names.dtype[p.dtype] then remarks.add(items.dtype, "value", "Unknown dtype %d", p.dtype) end
  if items.reason then
    local known = names.reason[p.slot]
    remarks.add(items.reason, known and "reject" or "value", known and "REJECT(%s)" or "Unknown reason %s",
                known and known:lower() or p.slot)
  end
  local per_word = 4 / names.value_bytes(p.dtype)
  if p.elements % (per_word * names.element_granule) ~= 0 or p.elements > per_word * names.max_elements then
    remarks.add(items.elements, "elements")
  elseif p.elements > 0 and names.is_data(p.kind) and not names.carries_values(p.kind) and
      p.kind ~= names.of.ZERORUN then
    remarks.add(items.elements, "elements", "This type carries no values")
  end
end

local function verify_check(item, tvb, p)
  local right = crc32c(tvb:raw(0, names.checked_bytes))
  p.check_good = right == tvb(names.checked_bytes, 4):uint()
  item:append_text(p.check_good and " (right)" or string.format(" (wrong, should be 0x%08x)", right))
  item:add(f.check_status, tvb(52, 4), p.check_good and header.GOOD or header.BAD):set_generated()
  if not p.check_good then
    remarks.add(item, "check", "check is 0x%08x, the header's CRC32C 0x%08x", tvb(52, 4):uint(), right)
  end
end

-- What code needs of a header that was captured as a whole; nil otherwise. slot: whatever the field carries.
function header.read(tvb)
  if tvb:len() < names.header_bytes then return nil end
  local p = {
    version = tvb(0, 1):uint(), kind = tvb(1, 1):uint(), flags = tvb(2, 1):uint(), job = tvb(4, 2):uint(),
    rank = tvb(6, 2):uint(), epoch = tvb(8, 4):uint(), chunk = tvb(12, 4):uint(), slot = tvb(16, 4):uint(),
    elements = tvb(20, 2):uint(), dtype = tvb(22, 1):uint(), exponent = tvb(23, 1):int(),
    contributors = ranks.of(tvb, 24), sum1 = tvb(40, 4):uint(), sum2 = tvb(44, 4):uint(), total = tvb(48, 4):uint(),
    flag_text = "",
  }
  p.name = names.type[p.kind] or string.format("type %d", p.kind)
  return p
end

-- Adds all fields that were captured. p: of header.read, whose flag_text and check_good it fills in; or nil.
function header.add(tree, tvb, p)
  local items = layout.add(tree, tvb, 0, wire_layout(tvb), f)
  if p then
    explain(items, tvb, p)
    verify_check(items.check, tvb, p)
  end
  return items
end

return header
