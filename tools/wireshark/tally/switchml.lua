-- The SwitchML dialect: switchml.*, 10 bytes and then 32, 64, 128 or 256 values.

local layout = require("tally.layout")
local value_list = require("tally.value_list")

local proto = Proto("switchml", "SwitchML, gradients summed by a switch")

local first_port, last_port = 0xBEE0, 0xBEEF
local header_bytes = 10
local known_msg_type = 1
local payload_bytes = { [0] = 128, [1] = 256, [2] = 512, [3] = 1024 }
local size_names, set_names = {}, { [0] = "set 0", [1] = "set 1" }
for code, bytes in pairs(payload_bytes) do size_names[code] = bytes .. " B of values" end

local f = {
  msg_type = ProtoField.uint8("switchml.msg_type", "Message type", base.DEC, nil, 0xF0),
  unused = ProtoField.uint8("switchml.unused", "Unused", base.DEC, nil, 0x08),
  size = ProtoField.uint8("switchml.size", "Size", base.DEC, size_names, 0x07),
  size_bytes = ProtoField.uint16("switchml.size_bytes", "Bytes of values"),
  job_number = ProtoField.uint8("switchml.job_number", "Job number"),
  tsi = ProtoField.uint32("switchml.tsi", "Packet number (tsi, little-endian)"),
  tsi_bytes = ProtoField.bytes("switchml.tsi_bytes", "tsi as on the wire"),
  pool_index = ProtoField.uint16("switchml.pool_index", "Pool index", base.HEX),
  set = ProtoField.uint16("switchml.set", "Set", base.DEC, set_names, 0x8000),
  reserved = ProtoField.uint16("switchml.pool_index.reserved", "Reserved", base.DEC, nil, 0x4000),
  slot = ProtoField.uint16("switchml.slot", "Slot", base.DEC, nil, 0x3FFF),
  e0 = ProtoField.int8("switchml.e0", "Exponent e0"),
  e1 = ProtoField.int8("switchml.e1", "Exponent e1"),
  values = ProtoField.bytes("switchml.values", "Values"),
  value = ProtoField.int32("switchml.value", "Value"),
}
for _, field in pairs(f) do proto.fields[#proto.fields + 1] = field end

local length = ProtoExpert.new("switchml.length.bad", "Lengths do not fit", expert.group.MALFORMED,
                               expert.severity.ERROR)
local kind = ProtoExpert.new("switchml.header.unknown", "Unknown header", expert.group.PROTOCOL, expert.severity.ERROR)
local truncated = ProtoExpert.new("switchml.truncated", "The capture has only a part of this packet",
                                  expert.group.COMMENTS_GROUP, expert.severity.NOTE)
proto.experts = { length, kind, truncated }

proto.prefs.values = Pref.uint("Values shown of a packet", 8, "As items of their own; all are there as bytes")

local function add_first_byte(tree, range)
  local item = tree:add(f.msg_type, range)
  tree:add(f.unused, range)
  local code = range:uint() % 8
  local size = tree:add(f.size, range)
  if payload_bytes[code] then
    tree:add(f.size_bytes, range, payload_bytes[code]):set_generated()
  else
    size:add_proto_expert_info(kind, string.format("Unknown size %d", code))
  end
  if math.floor(range:uint() / 16) ~= known_msg_type then
    item:add_proto_expert_info(kind, string.format("Unknown message type %d", math.floor(range:uint() / 16)))
  end
  return item
end

-- Clients write the number little-endian and the switch echoes the bytes; so both are shown.
local function add_tsi(tree, range)
  tree:add(f.tsi_bytes, range)
  return tree:add_le(f.tsi, range)
end

local function add_pool_index(tree, range)
  local item = tree:add(f.pool_index, range)
  item:add(f.set, range)
  item:add(f.reserved, range)
  item:add(f.slot, range)
  return item
end

local wire_layout = {
  { "first", 1, add_first_byte }, { "job_number", 1 }, { "tsi", 4, add_tsi }, { "pool_index", 2, add_pool_index },
  { "e0", 1 }, { "e1", 1 },
}

local function direction(pinfo)
  local to_switch = pinfo.dst_port >= first_port and pinfo.dst_port <= last_port
  return to_switch and "contribution" or "result"
end

local function describe(tvb, pinfo)
  local index = tvb(6, 2):uint()
  return string.format("%s job %d tsi %d slot %d set %d, exponents %d and %d", direction(pinfo), tvb(1, 1):uint(),
                       tvb(2, 4):le_uint(), index % 0x4000, math.floor(index / 0x8000), tvb(8, 1):int(),
                       tvb(9, 1):int())
end

local function check_length(tree, tvb, pinfo)
  local reported = tvb:reported_len()
  if pinfo.in_error_pkt then return true end  -- ICMP quotes as much as it likes
  if reported < header_bytes then
    tree:add_proto_expert_info(length, string.format("%d bytes are less than the header's %d", reported, header_bytes))
    return false
  end
  local wanted = tvb:len() > 0 and payload_bytes[tvb(0, 1):uint() % 8]
  if wanted and reported ~= header_bytes + wanted then
    tree:add_proto_expert_info(length, string.format("%d bytes follow the header, size says %d",
                                                     reported - header_bytes, wanted))
    return false
  end
  return true
end

function proto.dissector(tvb, pinfo, root)
  if tvb:len() == 0 and tvb:reported_len() > 0 then return 0 end
  pinfo.cols.protocol = "SWITCHML"
  local tree = tvb:len() > 0 and root:add(proto, tvb()) or root:add(proto)
  if tvb:len() < tvb:reported_len() then tree:add_proto_expert_info(truncated) end
  local fits = check_length(tree, tvb, pinfo)
  local _, _, whole = layout.add(tree, tvb, 0, wire_layout, f)
  local values = math.floor((tvb:reported_len() - header_bytes) / 4)
  value_list(tree, tvb, header_bytes, values, f.values, f.value, proto.prefs.values)
  local text = whole and describe(tvb, pinfo) or fits and "captured in part" or "shorter than a header"
  pinfo.cols.info:set(fits and text or text .. " [length]")
  tree:append_text(": " .. text)
  return tvb:len()
end

DissectorTable.get("udp.port"):add(string.format("%d-%d", first_port, last_port), proto)
