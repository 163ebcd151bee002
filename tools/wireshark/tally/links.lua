-- What packets have to do with one another: contribution and RESULT of a chunk, JOIN and its answer, repetitions.
-- Learnt when Wireshark reads a capture from its beginning to its end; shown when it comes back to a packet.
--
-- A RESULT answers what its receiver had sent for the chunk and had no answer to. One to a group answers everybody.

local names = require("tally.names")
local remarks = require("tally.remarks")

local links = {}

local f = {
  response_in = ProtoField.framenum("tally.response_in", "Answered in", base.NONE, frametype.RESPONSE),
  response_to = ProtoField.framenum("tally.response_to", "Answer to", base.NONE, frametype.REQUEST),
  response_time = ProtoField.relative_time("tally.response_time", "Time to the answer"),
  repeat_of = ProtoField.framenum("tally.repeat_of", "Sent before in", base.NONE, frametype.RETRANS_PREV),
  first_in = ProtoField.framenum("tally.chunk.first_in", "First contribution to the chunk in"),
  chunk_time = ProtoField.relative_time("tally.chunk.time", "Time since the first contribution to the chunk"),
  arrival = ProtoField.uint8("tally.chunk.arrival", "Number of ranks that have contributed"),
}
links.fields = f

local chunks, joins, generations, frames

function links.forget()
  chunks, joins, generations, frames = {}, {}, {}, {}
end
links.forget()

local function job_key(p) return string.format("%d:%d", p.job, p.epoch) end
local function chunk_key(p) return string.format("%d:%d:%d", p.job, p.epoch, p.chunk) end
local function end_key(address, port) return string.format("%s:%d", tostring(address), port) end

local function to_box(pinfo)
  return pinfo.dst_port >= names.base_port and pinfo.dst_port < names.base_port + names.max_shards
end

-- What one end has sent for a chunk, and no RESULT came for it yet.
local function sender_of(chunk, key)
  chunk.senders[key] = chunk.senders[key] or { waiting = {} }
  return chunk.senders[key]
end

local function note_request(p, pinfo, frame)
  local key = chunk_key(p)
  chunks[key] = chunks[key] or { senders = {}, by_rank = {}, arrived = 0 }
  local chunk = chunks[key]
  table.insert(sender_of(chunk, end_key(pinfo.src, pinfo.src_port)).waiting, frame)
  if p.kind ~= names.of.CONTRIBUTE then return end
  chunk.first = chunk.first or frame
  frame.chunk = chunk
  if chunk.by_rank[p.rank] then
    frame.repeat_of = chunk.by_rank[p.rank]
  else
    chunk.by_rank[p.rank] = frame
    chunk.arrived = chunk.arrived + 1
    frame.arrival = chunk.arrived
  end
end

local function answer(waiting, frame)
  for _, request in ipairs(waiting) do request.response_in = request.response_in or frame end
  frame.response_to = frame.response_to or waiting[1]
end

local function note_result(p, pinfo, frame)
  local chunk = chunks[chunk_key(p)]
  if not chunk then return end
  frame.chunk = chunk
  local sender = chunk.senders[end_key(pinfo.dst, pinfo.dst_port)]
  if sender then
    answer(sender.waiting, frame)
    sender.waiting = {}
  elseif tostring(pinfo.dst):match("^2[23]%d%.") or tostring(pinfo.dst):match("^[fF][fF]") then
    frame.response_to = chunk.first
    for _, one in pairs(chunk.senders) do
      answer(one.waiting, frame)
      one.waiting = {}
    end
  end
end

local function note_join(p, frame)
  if not p.nonce then return end
  if p.kind == names.of.JOIN or p.kind == names.of.ENLIST then
    joins[p.nonce] = frame
  else  -- CHALLENGE or JOINED
    if joins[p.nonce] then answer({ joins[p.nonce] }, frame) end
    -- In a job of racks a packet's keys are of more than who is in its bitmap.
    if names.status[p.status] == "RUNNING" and not p.racks and p.world >= 1 and p.world <= 64 then
      local members = {}
      for rank = 0, p.world - 1 do members[#members + 1] = rank end
      generations[job_key(p)] = { number = p.generation, members = members }
    end
  end
end

-- Once for every packet, in the order of the capture. p: of header.read, with what control.add found.
function links.note(p, pinfo)
  local frame = { number = pinfo.number, time = pinfo.rel_ts }
  frames[pinfo.number] = frame
  local joins_or_enlists = p.kind == names.of.JOIN or p.kind == names.of.ENLIST
  if joins_or_enlists or p.kind == names.of.CHALLENGE or p.kind == names.of.JOINED then
    note_join(p, frame)
  elseif p.kind == names.of.RESULT and p.rank == names.box_rank then
    note_result(p, pinfo, frame)
  elseif (p.kind == names.of.CONTRIBUTE or p.kind == names.of.QUERY) and to_box(pinfo) then
    note_request(p, pinfo, frame)
  end
end

-- { number = UInt64, members = ranks } of the packet's job and epoch, if a JOINED before it said so.
function links.generation(p) return generations[job_key(p)] end

local function duration(from, to)
  local seconds = to.time - from.time
  local whole = math.floor(seconds)
  return NSTime.new(whole, math.floor((seconds - whole) * 1e9 + 0.5))
end

function links.add(tree, pinfo)
  local frame = frames[pinfo.number]
  if not frame then return end
  local function add(field, value) return tree:add(field, value):set_generated() end
  if frame.repeat_of then remarks.add(add(f.repeat_of, frame.repeat_of.number), "again") end
  if frame.response_in then
    add(f.response_in, frame.response_in.number)
    add(f.response_time, duration(frame, frame.response_in))
  end
  if frame.response_to then
    add(f.response_to, frame.response_to.number)
    add(f.response_time, duration(frame.response_to, frame))
  end
  if frame.chunk and frame.chunk.first then
    add(f.first_in, frame.chunk.first.number)
    add(f.chunk_time, duration(frame.chunk.first, frame))
  end
  if frame.arrival then add(f.arrival, frame.arrival) end
end

return links
