-- Payloads of jobs over several boxes: PlanPayload, LostPayload and EnlistPayload of include/tally/wire.h.

local names = require("tally.names")
local layout = require("tally.layout")
local membership = require("tally.membership")
local ranks = require("tally.ranks")
local add_text = require("tally.text")

local plan = {
  plan = ProtoField.bytes("tally.plan.plan", "Name of the plan"),
  bytes = ProtoField.uint32("tally.plan.bytes", "Bytes of the plan"),
  page = ProtoField.uint8("tally.plan.page", "Page"),
  name_bytes = ProtoField.uint8("tally.plan.name_bytes", "Length of the name"),
  page_bytes = ProtoField.uint16("tally.plan.page_bytes", "Bytes of the page"),
  name = ProtoField.string("tally.plan.name", "Name of the job"),
  content = ProtoField.bytes("tally.plan.content", "Content of the page"),
}
local lost = {
  gone = ProtoField.uint64("tally.lost.gone", "Boxes that are gone", base.HEX),
  forgot = ProtoField.uint64("tally.lost.forgot", "Boxes that forgot", base.HEX),
}
local enlist = {
  instance = ProtoField.uint64("tally.enlist.instance", "Instance", base.HEX),
  nonce = ProtoField.uint64("tally.enlist.nonce", "Nonce", base.HEX),
  attempt = ProtoField.uint32("tally.enlist.attempt", "Attempt"),
  window = ProtoField.uint32("tally.enlist.window", "Window"),
  result_cookie = ProtoField.uint64("tally.enlist.result_cookie", "Result cookie", base.HEX),
  record = ProtoField.none("tally.enlist.record", "Generation record"),
  world = ProtoField.uint16("tally.enlist.world", "World"),
  lease_ms = ProtoField.uint32("tally.enlist.lease_ms", "Lease in milliseconds"),
  plan = ProtoField.bytes("tally.enlist.plan", "Name of the plan"),
  plan_bytes = ProtoField.uint32("tally.enlist.plan_bytes", "Bytes of the plan"),
  box = ProtoField.uint8("tally.enlist.box", "Which of its boxes this goes to"),
  max_priority = ProtoField.uint8("tally.enlist.max_priority", "Highest priority"),
  name_bytes = ProtoField.uint8("tally.enlist.name_bytes", "Length of the name"),
  zero = ProtoField.uint8("tally.enlist.zero", "Reserved"),
  challenge = ProtoField.bytes("tally.enlist.challenge", "Challenge that it brings"),
  name = ProtoField.string("tally.enlist.name", "Name of the job"),
}

local boxes = { fields = layout.all({ plan_ = plan, lost_ = lost, enlist_ = enlist }) }

local plan_layout = { { "plan", 16 }, { "bytes", 4 }, { "page", 1 }, { "name_bytes", 1 }, { "page_bytes", 2 } }
local lost_layout = { { "gone", 8 }, { "forgot", 8 } }
local enlist_layout = {
  { "instance", 8 }, { "nonce", 8 }, { "attempt", 4 }, { "window", 4 }, { "result_cookie", 8 },
  { "record", 22, membership.add_record(enlist.record) }, { "world", 2 }, { "lease_ms", 4 }, { "plan", 16 },
  { "plan_bytes", 4 }, { "box", 1 }, { "max_priority", 1 }, { "name_bytes", 1 }, { "zero", 1 },
  { "challenge", names.tag_bytes },
}

boxes.counter_bytes = 8
boxes.least = {
  PLAN = layout.bytes(plan_layout) + names.tag_bytes,
  LOST = boxes.counter_bytes + layout.bytes(lost_layout) + names.tag_bytes,
  ENLIST = layout.bytes(enlist_layout) + names.tag_bytes,
}

-- As the parsers of control.lua.
function boxes.PLAN(tree, tvb, p)
  local _, at, whole = layout.add(tree, tvb, 0, plan_layout, plan)
  if not whole then return nil end
  local name_bytes, page_bytes = tvb(21, 1):uint(), tvb(22, 2):uint()
  p.page, p.page_bytes = tvb(20, 1):uint(), page_bytes
  p.pages = math.ceil(tvb(16, 4):uint() / names.plan_page_bytes)
  p.text = add_text(tree, tvb, at, name_bytes, plan.name)
  at = at + name_bytes
  local there = math.min(page_bytes, tvb:len() - at)
  if there > 0 then tree:add(plan.content, tvb(at, there)) end
  return membership.add_tag(tree, tvb, at + page_bytes)
end

-- Behind its counter.
function boxes.LOST(tree, tvb, p)
  local _, at, whole = layout.add(tree, tvb, boxes.counter_bytes, lost_layout, lost)
  if not whole then return nil end
  p.gone, p.forgot = ranks.of(tvb, 8), ranks.of(tvb, 16)
  return membership.add_tag(tree, tvb, at)
end

function boxes.ENLIST(tree, tvb, p)
  local _, at, whole = layout.add(tree, tvb, 0, enlist_layout, enlist)
  if not whole then return nil end
  p.nonce, p.world, p.box = tvb(8, 8):bytes():tohex(), tvb(54, 2):uint(), tvb(80, 1):uint()
  return membership.add_name_and_tag(tree, tvb, p, at, tvb(82, 1):uint(), enlist.name)
end

return boxes
