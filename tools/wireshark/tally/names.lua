-- Numbers of include/tally/wire.h, wire.h and discipline.h, and the names by which docs/protocol.md calls
-- them. The test names_are_those_of_the_headers compares them with these files.

local names = {
  version = 2,
  base_port = 0xBF00,  -- + shard
  max_shards = 64,
  multicast_port = 0xBFFF,
  header_bytes = 56,
  checked_bytes = 52,
  element_granule = 16,
  max_elements = 2224,
  no_exponent = -128,
  not_a_number = 127,
  max_text_bytes = 512,
  max_name_bytes = 64,
  tag_bytes = 16,
  max_probe_bytes = 8896,
  box_rank = 0xFFFF,
  first_server_rank = 0xFF00,
  last_server_rank = 0xFF0F,
  first_rack_rank = 0xFE00,
  last_rack_rank = 0xFE3F,
  known_flags = 1 + 2 + 4 + 8 + 16 + 32,
  planned_flag = 64,  -- known in JOINED alone, as the next
  sparse_flag = 64,   -- of packets with values
  racks_flag = 128,
  plan_page_bytes = 1280,
}

names.type = {
  [1] = "CONTRIBUTE", [2] = "RESULT", [3] = "PARTIAL", [4] = "FLUSH", [5] = "RESEND", [6] = "QUERY", [7] = "ANSWER",
  [8] = "REJECT", [9] = "JOIN", [10] = "JOINED", [11] = "LEAVE", [12] = "HEARTBEAT", [13] = "ABORT", [14] = "PROBE",
  [15] = "NACK", [16] = "CHALLENGE", [17] = "PLAN", [18] = "LOST", [19] = "ENLIST", [20] = "ZERORUN",
}
names.flag = { [1] = "RETRANSMIT", [2] = "DIRECT", [4] = "OVERFLOW", [8] = "COLLISION", [16] = "ZERO",
  [32] = "INCOMPLETE", [64] = "PLANNED", [128] = "RACKS" }
names.dtype = { [0] = "INT32", [1] = "FLOAT32", [2] = "INT16", [255] = "FAREWELL" }
names.reason = { [1] = "EPOCH", [2] = "JOB", [3] = "WAITING" }
names.status = { [1] = "RUNNING", [2] = "FORMING", [3] = "REFUSED", [4] = "ELSEWHERE" }
names.discipline = { [1] = "POOL", [2] = "FCFS", [3] = "PREEMPTIVE", [4] = "SHARED" }
names.results = { [1] = "UNICAST", [2] = "MULTICAST" }

-- Types by number, for code.
names.of = {}
for number, name in pairs(names.type) do names.of[name] = number end

function names.is_data(kind)
  return kind >= names.of.CONTRIBUTE and kind <= names.of.REJECT or kind == names.of.NACK or kind == names.of.ZERORUN
end
function names.is_control(kind)
  return kind >= names.of.JOIN and kind <= names.of.PROBE or kind >= names.of.CHALLENGE and kind <= names.of.ENLIST
end

-- Bytes of one value, and of a packet's as its header has them.
function names.value_bytes(dtype) return names.dtype[dtype] == "INT16" and 2 or 4 end
-- Of packets whose rows of zeros are left out as many as there are: rows, and a bitmap behind them.
function names.values_bytes(p)
  if names.is_sparse(p) then return p.payload_bytes end
  if bit.band(p.flags, 16) ~= 0 then return 0 end
  return names.value_bytes(p.dtype) * p.elements
end

-- Values follow the header, and their sums are in sum1 and sum2.
local carries_values = { CONTRIBUTE = true, RESULT = true, PARTIAL = true, ANSWER = true }
function names.carries_values(kind) return carries_values[names.type[kind]] or false end
function names.is_sparse(p) return names.carries_values(p.kind) and bit.band(p.flags, names.sparse_flag) ~= 0 end

function names.rank(rank)
  if rank == names.box_rank then return "box" end
  if rank >= names.first_server_rank and rank <= names.last_server_rank then
    return string.format("server %d", rank - names.first_server_rank)
  end
  if rank >= names.first_rack_rank and rank <= names.last_rack_rank then
    return string.format("rack %d", rank - names.first_rack_rank)
  end
  return string.format("rank %d", rank)
end

return names
