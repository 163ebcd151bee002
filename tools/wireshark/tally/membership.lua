-- Payloads of JOIN, CHALLENGE and JOINED: JoinPayload, ChallengePayload, JoinedPayload and GenerationRecord of
-- include/tally/wire.h. Tags are shown and not verified: nobody has told the token.

local names = require("tally.names")
local layout = require("tally.layout")
local ranks = require("tally.ranks")
local remarks = require("tally.remarks")
local add_text = require("tally.text")

local record = {
  generation = ProtoField.uint64("tally.record.generation", "Generation", base.HEX),
  first_chunk = ProtoField.uint32("tally.record.first_chunk", "First chunk"),
  largest_window = ProtoField.uint32("tally.record.largest_window", "Largest window"),
  lookahead = ProtoField.uint32("tally.record.lookahead", "Lookahead"),
  elements = ProtoField.uint16("tally.record.elements", "Elements"),
}
local join = {
  instance = ProtoField.uint64("tally.join.instance", "Instance", base.HEX),
  nonce = ProtoField.uint64("tally.join.nonce", "Nonce", base.HEX),
  attempt = ProtoField.uint32("tally.join.attempt", "Attempt"),
  lowest = ProtoField.uint32("tally.join.lowest", "First chunk without a result"),
  next = ProtoField.uint32("tally.join.next", "Next chunk"),
  world = ProtoField.uint16("tally.join.world", "World"),
  elements = ProtoField.uint16("tally.join.elements", "Elements at most"),
  last = ProtoField.none("tally.join.last", "Its last generation record"),
  name_bytes = ProtoField.uint8("tally.join.name_bytes", "Length of the name"),
  reserved = ProtoField.uint8("tally.join.reserved", "Reserved"),
  challenge = ProtoField.bytes("tally.join.challenge", "Challenge that it brings"),
  name = ProtoField.string("tally.join.name", "Name of the job"),
}
local joined = {
  nonce = ProtoField.uint64("tally.joined.nonce", "Nonce", base.HEX),
  missing = ProtoField.uint64("tally.joined.missing", "Missing ranks", base.HEX),
  cookie = ProtoField.uint64("tally.joined.cookie", "Contribution cookie", base.HEX),
  salt = ProtoField.uint64("tally.joined.salt", "Salt", base.HEX),
  record = ProtoField.none("tally.joined.record", "Generation record"),
  world = ProtoField.uint16("tally.joined.world", "World"),
  window = ProtoField.uint32("tally.joined.window", "Window"),
  shared_slots = ProtoField.uint32("tally.joined.shared_slots", "Shared slots"),
  lease_ms = ProtoField.uint32("tally.joined.lease_ms", "Lease in milliseconds"),
  most_advanced = ProtoField.uint16("tally.joined.most_advanced", "Most advanced rank"),
  group_port = ProtoField.uint16("tally.joined.group_port", "UDP port of the group"),
  group = ProtoField.ipv6("tally.joined.group", "Group of the results"),
  box_mac = ProtoField.ether("tally.joined.box_mac", "MAC of the box"),
  status = ProtoField.uint8("tally.joined.status", "Status", base.DEC, names.status),
  discipline = ProtoField.uint8("tally.joined.discipline", "Discipline", base.DEC, names.discipline),
  results = ProtoField.uint8("tally.joined.results", "Results", base.DEC, names.results),
  shards = ProtoField.uint8("tally.joined.shards", "Shards"),
  text_bytes = ProtoField.uint16("tally.joined.text_bytes", "Length of the text"),
  text = ProtoField.string("tally.joined.text", "Text"),
  home = ProtoField.ipv6("tally.joined.home", "Home of the job"),
}

-- The text of a JOINED(running) with the flag PLANNED: PlannedText.
local planned = {
  plan = ProtoField.bytes("tally.planned.plan", "Name of the plan"),
  bytes = ProtoField.uint32("tally.planned.bytes", "Bytes of the plan"),
  home = ProtoField.uint8("tally.planned.home", "Which of its boxes this is"),
  zero = ProtoField.bytes("tally.planned.zero", "Reserved"),
}
local challenge = {
  nonce = ProtoField.uint64("tally.challenge.nonce", "Nonce", base.HEX),
  challenge = ProtoField.bytes("tally.challenge.challenge", "Challenge"),
}
local tag = ProtoField.bytes("tally.tag", "Tag")

local membership = { fields = layout.all({
  record_ = record, join_ = join, joined_ = joined, challenge_ = challenge, planned_ = planned, [""] = { tag = tag },
}) }

local record_layout = {
  { "generation", 8 }, { "first_chunk", 4 }, { "largest_window", 4 }, { "lookahead", 4 }, { "elements", 2 },
}
local function add_record(field)
  return function(tree, range)
    local item = tree:add(field, range)
    layout.add(item, range:tvb(), 0, record_layout, record)
    return item
  end
end

membership.add_record = add_record

local join_layout = {
  { "instance", 8 }, { "nonce", 8 }, { "attempt", 4 }, { "lowest", 4 }, { "next", 4 }, { "world", 2 },
  { "elements", 2 }, { "last", 22, add_record(join.last) }, { "name_bytes", 1 }, { "reserved", 1 },
  { "challenge", names.tag_bytes },
}
local challenge_layout = { { "nonce", 8 }, { "challenge", names.tag_bytes } }
local planned_layout = { { "plan", 16 }, { "bytes", 4 }, { "home", 1 }, { "zero", 3 } }
local address_bytes = 16
local joined_layout = {
  { "nonce", 8 }, { "missing", 8 }, { "cookie", 8 }, { "salt", 8 }, { "record", 22, add_record(joined.record) },
  { "world", 2 }, { "window", 4 }, { "shared_slots", 4 }, { "lease_ms", 4 }, { "most_advanced", 2 },
  { "group_port", 2 }, { "group", 16 }, { "box_mac", 6 }, { "status", 1 }, { "discipline", 1 }, { "results", 1 },
  { "shards", 1 }, { "text_bytes", 2 },
}

membership.least = {
  JOIN = layout.bytes(join_layout) + names.tag_bytes, JOINED = layout.bytes(joined_layout) + names.tag_bytes,
  CHALLENGE = layout.bytes(challenge_layout),
}

-- The tag at `at`, if it was captured. Returns where it ends.
function membership.add_tag(tree, tvb, at)
  if at + names.tag_bytes <= tvb:len() then tree:add(tag, tvb(at, names.tag_bytes)) end
  return at + names.tag_bytes
end

-- Likewise a name of so many bytes, and the tag behind it.
function membership.add_name_and_tag(tree, tvb, p, at, bytes, field)
  p.text = add_text(tree, tvb, at, bytes, field)
  return membership.add_tag(tree, tvb, at + bytes)
end

-- As the parsers of control.lua.
function membership.JOIN(tree, tvb, p)
  local _, at, whole = layout.add(tree, tvb, 0, join_layout, join)
  if not whole then return nil end
  p.nonce, p.world = tvb(8, 8):bytes():tohex(), tvb(28, 2):uint()
  return membership.add_name_and_tag(tree, tvb, p, at, tvb(54, 1):uint(), join.name)
end

function membership.CHALLENGE(tree, tvb, p)
  local _, at, whole = layout.add(tree, tvb, 0, challenge_layout, challenge)
  if not whole then return nil end
  p.nonce = tvb(0, 8):bytes():tohex()
  return at
end

function membership.JOINED(tree, tvb, p)
  local items, at, whole = layout.add(tree, tvb, 0, joined_layout, joined)
  if not whole then return nil end
  p.nonce, p.missing, p.world = tvb(0, 8):bytes():tohex(), ranks.of(tvb, 8), tvb(54, 2):uint()
  p.status, p.generation, p.window = tvb(94, 1):uint(), tvb(32, 8):uint64(), tvb(56, 4):uint()
  items.missing:append_text(" (" .. ranks.text(p.missing) .. ")")
  for offset, name in pairs({ [94] = "status", [95] = "discipline", [96] = "results" }) do
    local number = tvb(offset, 1):uint()
    if not names[name][number] then remarks.add(items[name], "value", "Unknown %s %d", name, number) end
  end
  local text_bytes = tvb(98, 2):uint()
  local is_planned = bit.band(p.flags, names.planned_flag) ~= 0
  if is_planned and text_bytes == layout.bytes(planned_layout) then
    layout.add(tree, tvb, at, planned_layout, planned)
  elseif names.status[p.status] == "ELSEWHERE" and text_bytes == address_bytes then
    if at + address_bytes <= tvb:len() then
      tree:add(joined.home, tvb(at, address_bytes))
      p.text = tostring(tvb(at, address_bytes):ipv6())
    end
  else
    p.text = add_text(tree, tvb, at, text_bytes, joined.text)
  end
  if names.status[p.status] == "REFUSED" then remarks.add(items.status, "refused", "JOIN refused: %s", p.text) end
  return membership.add_tag(tree, tvb, at + text_bytes)
end

return membership
