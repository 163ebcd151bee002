-- CRC32C (Castagnoli) of a string of bytes, as docs/protocol.md, 4, says. Wireshark's `bit` counts with signed
-- 32-bit numbers; the result is unsigned.

local bxor, band, rshift = bit.bxor, bit.band, bit.rshift
local polynomial = 0x82F63B78

local step = {}
for byte = 0, 255 do
  local crc = byte
  for _ = 1, 8 do
    crc = band(crc, 1) == 1 and bxor(rshift(crc, 1), polynomial) or rshift(crc, 1)
  end
  step[byte] = crc
end

return function(bytes)
  local crc = -1
  for i = 1, #bytes do
    crc = bxor(rshift(crc, 8), step[band(bxor(crc, bytes:byte(i)), 0xFF)])
  end
  return bxor(crc, -1) % 0x100000000
end
