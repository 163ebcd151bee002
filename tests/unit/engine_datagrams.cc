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
  std::vector<std::int32_t> values((datagram.size() - kHeaderBytes) / 4);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, datagram.data() + kHeaderBytes + 4 * i, 4);
    values[i] = static_cast<std::int32_t>(__builtin_bswap32(word));
  }
  return values;
}

Bytes sealed(Header header, const Bytes& payload) { return box_says(header, payload); }

Bytes sealed(Header header, const std::vector<std::int32_t>& values) {
  Bytes payload(4 * values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t word = __builtin_bswap32(static_cast<std::uint32_t>(values[i]));
    std::memcpy(payload.data() + 4 * i, &word, 4);
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
