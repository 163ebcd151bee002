-- One line for a person: who says what to whom, of which chunk.

local names = require("tally.names")
local ranks = require("tally.ranks")

local info = {}

local function shape(p)
  if p.elements == 0 then return "no values" end
  return string.format("%d %s", p.elements, (names.dtype[p.dtype] or "values"):lower())
end

local function exponent(p)
  return p.exponent == names.no_exponent and "" or string.format(", exponent %d", p.exponent)
end

local function of_chunk(p, who, what)
  return string.format("job %d %s chunk %d%s", p.job, who, p.chunk, what)
end

local say = {}

function say.CONTRIBUTE(p) return of_chunk(p, names.rank(p.rank), ": " .. shape(p) .. exponent(p)) end
function say.RESULT(p)
  return of_chunk(p, "", ": " .. shape(p) .. " of " .. ranks.phrase(p.contributors) .. exponent(p))
end
say.PARTIAL = say.RESULT
function say.FLUSH(p) return of_chunk(p, names.rank(p.rank), "") end
function say.RESEND(p)
  return of_chunk(p, names.rank(p.rank) .. " asks " .. ranks.phrase(p.contributors) .. " for", "")
end
function say.QUERY(p)
  if #p.contributors > 0 then return say.RESEND(p) end
  return of_chunk(p, names.rank(p.rank) .. " asks the box for", "")
end
function say.ANSWER(p)
  local what = ": has forgotten it"
  if #p.contributors > 0 then what = ": " .. shape(p) .. " of " .. ranks.phrase(p.contributors) end
  return of_chunk(p, string.format("%s to %s", names.rank(p.rank), names.rank(p.slot)), what)
end
function say.REJECT(p)
  local reason = names.reason[p.slot] or string.format("reason %d", p.slot)
  if p.payload_bytes > 0 then return string.format("job %d %s, of control", p.job, reason:lower()) end
  local waiting = reason == "WAITING" and ": contributed so far: " .. ranks.phrase(p.contributors) or ""
  return of_chunk(p, reason:lower(), waiting)
end
function say.NACK(p)
  local lacks = {}
  for _, bit_number in ipairs(p.contributors) do lacks[#lacks + 1] = p.slot + bit_number end
  return string.format("job %d shard %d lacks sequence %s", p.job, p.total, table.concat(lacks, ", "))
end
function say.JOIN(p) return string.format("job '%s' %s of %d", p.text or "?", names.rank(p.rank), p.world or 0) end
function say.ENLIST(p) return string.format("%s at box %d, epoch 0x%08x", say.JOIN(p), p.box or 0, p.epoch) end
function say.PLAN(p)
  if not p.page then return "" end
  local asks = p.page_bytes == 0 and "asks for " or ""
  return string.format("job '%s' %s %spage %d of 0-%d", p.text, names.rank(p.rank), asks, p.page, p.pages - 1)
end
local function some_boxes(list) return #list == 1 and "box " .. list[1] or "boxes " .. table.concat(list, ", ") end
function say.LOST(p)
  local what = {}
  if p.gone and #p.gone > 0 then what[#what + 1] = some_boxes(p.gone) .. " gone" end
  if p.forgot and #p.forgot > 0 then what[#what + 1] = some_boxes(p.forgot) .. " forgot" end
  return string.format("job %d %s: %s", p.job, names.rank(p.rank), table.concat(what, ", "))
end
function say.CHALLENGE(p) return "to the JOIN of nonce 0x" .. (p.nonce or "?"):lower() end
function say.JOINED(p)
  local status = names.status[p.status] or "unknown status"
  if status == "RUNNING" then
    return string.format("running: job %d, epoch 0x%08x, world %d, window %d", p.job, p.epoch, p.world, p.window)
  elseif status == "FORMING" then
    return string.format("forming: awaits %s", ranks.phrase(p.missing))
  end
  return string.format("%s: %s", status:lower(), p.text or "")
end
function say.LEAVE(p) return string.format("job %d %s, next chunk %d", p.job, names.rank(p.rank), p.chunk) end
function say.HEARTBEAT(p)
  local alive = p.rank == names.box_rank and ", alive: " .. ranks.phrase(p.contributors) or ""
  return say.LEAVE(p) .. alive
end
function say.ABORT(p) return string.format("job %d %s: %s", p.job, names.rank(p.rank), p.text or "") end
function say.PROBE(p) return string.format("%s, %d bytes", names.rank(p.rank), p.payload_bytes) end

-- p: of header.read, with what control.add found.
function info.text(p)
  local text = p.name
  local sayer = say[p.name]
  if sayer then text = text .. " " .. sayer(p):gsub("  +", " ") end
  if p.flag_text ~= "" then text = text .. " [" .. p.flag_text .. "]" end
  if p.remark then text = text .. " [" .. p.remark .. "]" end
  return text
end

return info
