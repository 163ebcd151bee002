-- The native protocol: tally.*

local names = require("tally.names")
local header = require("tally.header")
local values = require("tally.values")
local control = require("tally.control")
local links = require("tally.links")
local info = require("tally.info")
local remarks = require("tally.remarks")
local crc32c = require("tally.crc32c")

local proto = Proto("tally", "Tally, gradients summed by a switch")

for _, part in ipairs({ header, values, control, links }) do
  for _, field in pairs(part.fields) do proto.fields[#proto.fields + 1] = field end
end
for _, remark in pairs(remarks.list) do table.insert(proto.experts, remark) end

proto.prefs.values = Pref.uint("Values shown of a packet", 8, "As items of their own; all are there as bytes")
proto.prefs.sums = Pref.bool("Verify sums", false, "sum1 and sum2 of every packet with values; slow in large captures")

proto.init = links.forget

-- Adds what is wrong with the number of bytes behind the header. ICMP quotes as many of a packet as it likes.
local function check_length(item, p, reported, wanted)
  if reported == wanted or p.quoted then return end
  p.remark = "length"
  remarks.add(item, "length", "%d bytes follow the header, it should be %d", reported, wanted)
end

local function add_payload(tree, items, tvb, p, reported)
  if names.is_control(p.kind) or p.kind == names.of.REJECT then
    check_length(items.type, p, reported, control.add(tree, items, tvb, p, reported))
  elseif p.kind == names.of.ZERORUN then
    check_length(items.elements, p, reported, values.add_exponents(tree, tvb, p))
  elseif names.is_data(p.kind) then
    check_length(items.elements, p, reported, names.values_bytes(p))
    values.add(tree, tvb, p, proto.prefs.values)
    if proto.prefs.sums and names.carries_values(p.kind) and not p.remark then
      values.verify(items, tvb, p, links.generation(p))
    end
  end
end

-- Fewer bytes than a header, on the wire or in the capture.
local function add_stump(tree, tvb, pinfo)
  header.add(tree, tvb, nil)
  local short = tvb:reported_len() < names.header_bytes and not pinfo.in_error_pkt
  if short then
    remarks.add(tree, "length", "%d bytes are less than the header's %d", tvb:reported_len(), names.header_bytes)
  end
  pinfo.cols.info:set(short and "Shorter than a header [length]" or "Captured in part")
end

local function add_packet(tree, tvb, pinfo, p)
  local items = header.add(tree, tvb, p)
  p.payload_bytes, p.quoted = tvb:reported_len() - names.header_bytes, pinfo.in_error_pkt
  add_payload(tree, items, tvb, p, p.payload_bytes)
  if not p.check_good then
    p.remark = "check"
  elseif not pinfo.visited and not pinfo.in_error_pkt then
    links.note(p, pinfo)
  end
  links.add(tree, pinfo)
  pinfo.cols.info:set(info.text(p))
  tree:append_text(": " .. info.text(p))
end

function proto.dissector(tvb, pinfo, root)
  if tvb:len() == 0 and tvb:reported_len() > 0 then return 0 end
  pinfo.cols.protocol = "TALLY"
  local tree = tvb:len() > 0 and root:add(proto, tvb()) or root:add(proto)
  local p = header.read(tvb)
  if tvb:len() < tvb:reported_len() then remarks.add(tree, "truncated") end
  if tvb:len() > 0 and tvb(0, 1):uint() ~= names.version then
    remarks.add(tree:add(header.fields.version, tvb(0, 1)), "version", "Version %d", tvb(0, 1):uint())
    pinfo.cols.info:set(string.format("Version %d [version]", tvb(0, 1):uint()))
  elseif p then
    add_packet(tree, tvb, pinfo, p)
  else
    add_stump(tree, tvb, pinfo)
  end
  return tvb:len()
end

-- On other ports (a group's of the configuration, after address translation) what has a right check is ours.
local function is_ours(tvb)
  if tvb:len() < names.header_bytes or tvb(0, 1):uint() ~= names.version then return false end
  if not names.type[tvb(1, 1):uint()] then return false end
  return crc32c(tvb:raw(0, names.checked_bytes)) == tvb(names.checked_bytes, 4):uint()
end

local shards = string.format("%d-%d", names.base_port, names.base_port + names.max_shards - 1)
DissectorTable.get("udp.port"):add(shards .. "," .. names.multicast_port, proto)
proto:register_heuristic("udp", function(tvb, pinfo, root)
  if not is_ours(tvb) then return false end
  proto.dissector(tvb, pinfo, root)
  return true
end)
