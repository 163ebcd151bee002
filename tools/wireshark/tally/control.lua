-- Payloads of the control types: the text of ABORT, the bytes of PROBE; JOIN and JOINED are membership.lua's.

local names = require("tally.names")
local membership = require("tally.membership")
local add_text = require("tally.text")
local remarks = require("tally.remarks")
local header = require("tally.header")
local crc32c = require("tally.crc32c")

local control = {}

local f = {
  payload_status = ProtoField.uint8("tally.payload.status", "Payload CRC status", base.DEC, header.statuses),
  probe = ProtoField.bytes("tally.probe", "Bytes to return"),
  abort = ProtoField.string("tally.abort.text", "Reason"),
}
control.fields = { f.payload_status, f.probe, f.abort }
for _, field in pairs(membership.fields) do table.insert(control.fields, field) end

-- Each takes the payload's own Tvb and the packet p, fills in what links and the info column need, and returns how
-- many bytes the payload should have, nil when what says so was not captured.
local parse = { JOIN = membership.JOIN, JOINED = membership.JOINED }

function parse.ABORT(tree, tvb, p, reported)
  p.text = add_text(tree, tvb, 0, math.min(reported, names.max_text_bytes), f.abort)
  return math.min(reported, names.max_text_bytes)
end

function parse.PROBE(tree, tvb, _, reported)
  if tvb:len() > 0 then tree:add(f.probe, tvb()) end
  return math.min(reported, names.max_probe_bytes)
end

local function verify_payload(items, tvb, p, reported)
  local there = tvb:len() - names.header_bytes
  if there < reported or p.quoted then
    items.sum1:add(f.payload_status, tvb(40, 4), header.UNVERIFIED):set_generated()
    return
  end
  local right = there > 0 and crc32c(tvb:raw(names.header_bytes, there)) or 0
  local good = right == p.sum1
  items.sum1:add(f.payload_status, tvb(40, 4), good and header.GOOD or header.BAD):set_generated()
  if not good then remarks.add(items.sum1, "payload", "sum1 is 0x%08x, the payload's CRC32C 0x%08x", p.sum1, right) end
end

-- The payload of a control type. reported: its bytes on the wire. Returns how many it should have, at least.
function control.add(tree, items, tvb, p, reported)
  verify_payload(items, tvb, p, reported)
  local parser = parse[p.name]
  if not parser then return 0 end
  local wanted = tvb:len() > names.header_bytes and parser(tree, tvb(names.header_bytes):tvb(), p, reported)
  if p.kind == names.of.ABORT then remarks.add(items.type, "abort", "The job is aborted: %s", p.text or "no reason") end
  return wanted or math.max(reported, membership.least[p.name] or 0)
end

return control
