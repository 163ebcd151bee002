#include "engine_datagrams.h"

#include <gtest/gtest.h>

#include <cstring>

#include "box_says.h"
#include "kernels/kernels.h"

namespace tally::testbed {

Header header_of(const Bytes& datagram) {
  Header header;
  EXPECT_GE(datagram.size(), sizeof header);
  std::memcpy(&header, datagram.data(), sizeof header);
  return header;
}

Bytes payload_of(const Bytes& datagram) { return {datagram.begin() + kHeaderBytes, datagram.end()}; }

std::vector<std::int32_t> values_of(const Bytes& datagram) {
  const Header h = header_of(datagram);
  std::vector<std::int32_t> values(h.elements.host());
  if ((h.flags & kFlagZero) != 0) return values;
  const std::size_t bytes = 4 / values_per_word(h.dtype);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::byte* const at = datagram.data() + kHeaderBytes + bytes * i;
    values[i] = bytes == 2 ? static_cast<std::int16_t>(wire_at<Be<std::uint16_t>>(at).host())
                           : static_cast<std::int32_t>(wire_at<Be<std::uint32_t>>(at).host());
  }
  return values;
}

Bytes sealed(Header header, const Bytes& payload) { return box_says(header, payload); }

Bytes sealed(Header header, const std::vector<std::int32_t>& values) {
  if ((header.flags & kFlagZero) != 0) return sealed(header, Bytes{});
  const std::size_t bytes = 4 / values_per_word(header.dtype);
  Bytes payload(bytes * values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto word = static_cast<std::uint32_t>(values[i]);
    std::byte* const at = payload.data() + bytes * i;
    bytes == 2 ? wire_put(at, Be{static_cast<std::uint16_t>(word)}) : wire_put(at, Be{word});
  }
  return sealed(header, payload);
}

Bytes resealed(Bytes datagram) {
  const Be<std::uint32_t> check{kernels::best_kernels().crc32c(datagram.data(), kCheckedBytes)};
  std::memcpy(datagram.data() + kCheckedBytes, &check, 4);
  return datagram;
}

Bytes text_bytes(const std::string& text) {
  Bytes out(text.size());
  if (!text.empty()) std::memcpy(out.data(), text.data(), text.size());
  return out;
}

std::uint32_t plain_sum1(const std::vector<std::int32_t>& values) {
  std::uint32_t sum = 0;
  for (const auto v : values) sum += static_cast<std::uint32_t>(v);
  return sum;
}

std::uint32_t plain_sum2(const std::vector<std::int32_t>& values) {
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < values.size(); ++i) sum += (i + 1) * static_cast<std::uint32_t>(values[i]);
  return sum;
}

}  // namespace tally::testbed
