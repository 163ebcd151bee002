#include "engine_datagrams.h"

#include <gtest/gtest.h>

#include <algorithm>
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

namespace {

// Rows of 64 bytes are as many as bits are set in words of 64 bits behind them; the others are zeros.
Bytes with_all_rows(const Bytes& datagram, std::size_t rows) {
  constexpr std::size_t kRow = 64;
  Bytes whole(datagram.begin(), datagram.begin() + kHeaderBytes);
  const std::size_t words = (rows + 63) / 64;
  const std::byte* next = datagram.data() + kHeaderBytes;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::byte* const word = datagram.data() + datagram.size() - 8 * words + 8 * (r / 64);
    const bool there = (wire_at<Be<std::uint64_t>>(word).host() >> r % 64 & 1) != 0;
    whole.resize(whole.size() + kRow);
    if (!there) continue;
    std::memcpy(whole.data() + whole.size() - kRow, next, kRow);
    next += kRow;
  }
  EXPECT_EQ(next, datagram.data() + datagram.size() - 8 * words);
  return whole;
}

}  // namespace

std::vector<std::int32_t> values_of(const Bytes& datagram) {
  const Header h = header_of(datagram);
  std::vector<std::int32_t> values(h.elements.host());
  if ((h.flags & kFlagZero) != 0) return values;
  if ((h.flags & kFlagSparse) != 0) {
    Bytes whole = with_all_rows(datagram, values.size() / (16 * values_per_word(h.dtype)));
    Header dense = h;
    dense.flags &= static_cast<std::uint8_t>(~kFlagSparse);
    std::memcpy(whole.data(), &dense, sizeof dense);
    return values_of(whole);
  }
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

Bytes without_zero_rows(const Bytes& datagram) {
  constexpr std::size_t kRow = 64;
  const Bytes dense = payload_of(datagram);
  const std::size_t rows = dense.size() / kRow;
  std::vector<std::uint64_t> bitmap((rows + 63) / 64);
  Bytes payload;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto row = dense.begin() + static_cast<std::ptrdiff_t>(kRow * r);
    if (std::all_of(row, row + kRow, [](std::byte b) { return b == std::byte{}; })) continue;
    payload.insert(payload.end(), row, row + kRow);
    bitmap[r / 64] |= std::uint64_t{1} << r % 64;
  }
  for (const std::uint64_t word : bitmap) {
    payload.resize(payload.size() + 8);
    wire_put(payload.data() + payload.size() - 8, Be{word});
  }
  if (payload.size() >= dense.size()) return datagram;
  Header h = header_of(datagram);
  h.flags |= kFlagSparse;
  return sealed(h, payload);
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
