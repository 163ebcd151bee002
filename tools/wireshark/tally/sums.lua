-- sum1 and sum2 of docs/protocol.md, 4: of values alone, and the keys of ranks, which follow from the generation.
-- Numbers are doubles here: every product stays below 2^53, where they are exact.

local sums = {}
local two32 = 0x100000000

-- a * b modulo 2^32, of two numbers below 2^32.
local function multiply(a, b)
  local low, high = a % 0x10000, math.floor(a / 0x10000)
  return (low * b + (high * b % 0x10000) * 0x10000) % two32
end

local function mix64(x)
  x = x:bxor(x:rshift(30)) * UInt64.new(0x1CE4E5B9, 0xBF58476D)
  x = x:bxor(x:rshift(27)) * UInt64.new(0x133111EB, 0x94D049BB)
  return x:bxor(x:rshift(31))
end

-- generation: UInt64.
function sums.rank_key(generation, rank)
  local mixed = mix64(generation + UInt64.new(rank, 0)):lower() % 0x2000000
  return mixed * 128 + rank * 2 + 1
end

-- The keys' part of sum1; ranks: an array.
function sums.of_keys(generation, ranks, chunk)
  local keys = 0
  for _, rank in ipairs(ranks) do keys = keys + sums.rank_key(generation, rank) end
  return multiply(keys % two32, (2 * chunk + 1) % two32)
end

-- The values' part of sum1, and sum2; bytes: big-endian numbers of `size` bytes, 4 or 2; those are sign-extended.
function sums.of_values(bytes, size)
  local sum1, sum2, index = 0, 0, 0
  for at = 1, #bytes - size + 1, size do
    local a, b, c, d = bytes:byte(at, at + size - 1)
    local value = a * 256 + b
    if size == 4 then
      value = (value * 256 + c) * 256 + d
    elseif value >= 0x8000 then
      value = value + two32 - 0x10000
    end
    index = index + 1
    sum1 = (sum1 + value) % two32
    sum2 = (sum2 + index * value) % two32
  end
  return sum1, sum2
end

return sums
