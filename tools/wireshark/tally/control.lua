-- Payloads of what control says and hears: counter, text and tag of HEARTBEAT, LEAVE, ABORT and REJECT, the bytes of
-- PROBE; JOIN, CHALLENGE and JOINED are membership.lua's, PLAN, LOST and ENLIST boxes.lua's.

local names = require("tally.names")
local membership = require("tally.membership")
local boxes = require("tally.boxes")
local add_text = require("tally.text")
local remarks = require("tally.remarks")
local header = require("tally.header")
local crc32c = require("tally.crc32c")

local control = {}

local f = {
  payload_status = ProtoField.uint8("tally.payload.status", "Payload CRC status", base.DEC, header.statuses),
  probe = ProtoField.bytes("tally.probe", "Bytes to return"),
  abort = ProtoField.string("tally.abort.text", "Reason"),
  counter = ProtoField.uint64("tally.counter", "Counter"),
  name = ProtoField.string("tally.heartbeat.name", "Name of the job"),
}
control.fields = { f.payload_status, f.probe, f.abort, f.counter, f.name }
for _, field in pairs(membership.fields) do table.insert(control.fields, field) end
for _, field in pairs(boxes.fields) do table.insert(control.fields, field) end

-- Each takes the payload's own Tvb and the packet p, fills in what links and the info column need, and returns how
-- many bytes the payload should have, nil when what says so was not captured.
local parse = { JOIN = membership.JOIN, CHALLENGE = membership.CHALLENGE, JOINED = membership.JOINED,
                PLAN = boxes.PLAN, ENLIST = boxes.ENLIST }

local counter_bytes = boxes.counter_bytes
local counted_bytes = counter_bytes + names.tag_bytes
local least = { LEAVE = counted_bytes, HEARTBEAT = counted_bytes, ABORT = counted_bytes, REJECT = counted_bytes }

-- Counter, a text of what is left up to `most` bytes, tag.
local function add_counted(tree, tvb, p, reported, most, field)
  if tvb:len() >= counter_bytes then tree:add(f.counter, tvb(0, counter_bytes)) end
  local bytes = math.max(0, math.min(reported - counted_bytes, most))
  if bytes > 0 then p.text = add_text(tree, tvb, counter_bytes, bytes, field) end
  return membership.add_tag(tree, tvb, counter_bytes + bytes)
end

function parse.LEAVE(tree, tvb, p, reported) return add_counted(tree, tvb, p, reported, 0) end
parse.REJECT = parse.LEAVE

function parse.HEARTBEAT(tree, tvb, p, reported)
  return add_counted(tree, tvb, p, reported, p.rank == names.box_rank and 0 or names.max_name_bytes, f.name)
end

function parse.ABORT(tree, tvb, p, reported)
  return add_counted(tree, tvb, p, reported, names.max_text_bytes, f.abort)
end

function parse.LOST(tree, tvb, p)
  if tvb:len() >= counter_bytes then tree:add(f.counter, tvb(0, counter_bytes)) end
  return boxes.LOST(tree, tvb, p)
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
  if p.kind == names.of.REJECT and reported == 0 then return 0 end  -- of a data core
  local parser = parse[p.name]
  if not parser then return 0 end
  local wanted = tvb:len() > names.header_bytes and parser(tree, tvb(names.header_bytes):tvb(), p, reported)
  if p.kind == names.of.ABORT then remarks.add(items.type, "abort", "The job is aborted: %s", p.text or "no reason") end
  return wanted or math.max(reported, membership.least[p.name] or boxes.least[p.name] or least[p.name] or 0)
end

return control
