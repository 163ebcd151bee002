#include "forged_frame.h"

#include <bit>
#include <utility>

namespace tally {

namespace {

std::uint64_t rows_there(const Offered& p) {
  std::uint64_t rows = p.kept & ((1U << p.values.size() / kElementGranule) - 1);
  for (std::size_t i = 0; i < p.values.size(); ++i)
    if (p.values[i] != 0) rows |= std::uint64_t{1} << i / kElementGranule;
  return rows;
}

// Not by what the product does it with.
void leave_out_rows(Bytes& datagram, std::uint64_t rows) {
  Bytes out(datagram.begin(), datagram.begin() + kHeaderBytes);
  for (std::size_t at = kHeaderBytes, i = 0; at < datagram.size(); at += 64, ++i)
    if ((rows >> i & 1) != 0) out.insert(out.end(), &datagram[at], &datagram[at] + 64);
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<std::byte>(rows >> shift));
  Header h = header_of(datagram);
  h.flags |= kFlagSparse;
  datagram = std::move(out);
  set_header(datagram, h);
}

}  // namespace

bool rows_shorten(const Offered& p) {
  return 64U * static_cast<unsigned>(std::popcount(rows_there(p))) + 8 < 4 * p.values.size();
}

Bytes datagram_of(const jobs::NativeJob& row, const Offered& p) {
  Bytes datagram = make_contribution(
      row, {.rank = p.rank,
            .chunk = p.chunk,
            .values = p.values,
            .flags = static_cast<std::uint8_t>((p.overflow ? kFlagOverflow : 0) |
                                               (p.direct ? kFlagDirect : 0) | (p.zero ? kFlagZero : 0)),
            .dtype = p.shape.dtype,
            .exponent = p.exponent,
            .total = p.shape.total});
  if (p.sparse) leave_out_rows(datagram, rows_there(p));
  return datagram;
}

Forged forged_contribution(const jobs::NativeJob& job, Offered p, std::uint32_t which, std::uint16_t other) {
  p.zero = p.sparse = false;  // one thing is wrong at a time
  Forged out{datagram_of(job, p), job.ranks[raw(p.rank)].binding};
  Header h = header_of(out.datagram);
  switch (which) {
    case 0:
      h.cookie = Be{h.cookie.host() ^ other};
      out.why = Drop::kCookie;
      break;
    case 1:
      h.epoch = Be{h.epoch.host() ^ (std::uint32_t{other} << 15)};
      out.why = Drop::kEpoch;
      break;
    case 2:
      h.rank = Be{static_cast<std::uint16_t>(job.world + other / 2)};
      out.why = Drop::kRank;
      break;
    case 3:
      h.contributors = {};
      out.why = Drop::kContributors;
      break;
    case 4:
      h.contributors = Be{h.contributors.host() ^ other};
      out.why = Drop::kContributors;
      break;
    case 5:
      out.from.udp_port = static_cast<std::uint16_t>(out.from.udp_port ^ other);
      out.why = Drop::kSource;
      break;
    case 6:
      out.from.port = PortIndex{static_cast<std::uint16_t>(raw(out.from.port) ^ other)};
      out.why = Drop::kSource;
      break;
    case 7:  // the jobs are 1 and 2
      h.job = Be{static_cast<std::uint16_t>(2 + other % 0x8000)};
      out.why = Drop::kJob;
      break;
    case 8:
      out.from.mac[3] ^= 1;
      out.why = Drop::kSource;
      break;
    case 9:
      out.from.address[14] ^= 0x80;
      out.why = Drop::kSource;
      break;
    case 10:
      h.type = PacketType::kResult;
      h.flags &= static_cast<std::uint8_t>(~kFlagDirect);  // a RESULT has none
      out.why = Drop::kType;
      out.before_match = true;
      break;
    case 11:
      h.flags |= kFlagIncomplete;
      out.why = Drop::kFlags;
      out.before_match = true;
      break;
    case 12:
      h.dtype = 3;
      out.why = Drop::kDtype;
      out.before_match = true;
      break;
    case 13:  // room in the packet, but not in the entry
      out.datagram.resize(kHeaderBytes + 4 * (job.elements + 16U));
      h.elements = Be{static_cast<std::uint16_t>(job.elements + 16)};
      out.why = Drop::kElements;
      break;
    default:
      out.datagram.push_back(std::byte{0});
      out.why = Drop::kLength;
      out.before_match = true;
      break;
  }
  set_header(out.datagram, h);
  return out;
}

Forged forged_rows(const jobs::NativeJob& job, Offered p, std::uint32_t which, std::uint16_t other) {
  p.zero = p.sparse = false;
  Forged out{datagram_of(job, p), job.ranks[raw(p.rank)].binding, Drop::kRows, true};
  const std::size_t rows = p.values.size() / kElementGranule;
  const std::uint64_t all = (std::uint64_t{1} << rows) - 1;
  leave_out_rows(out.datagram, all & ~std::uint64_t{1});
  Bytes& d = out.datagram;
  switch (which) {
    case 0:  // a row that there is not
      d[d.size() - 8] ^= std::byte{static_cast<unsigned char>(other)};
      break;
    case 1:  // one that did not come
      d.back() ^= std::byte{1};
      break;
    case 2:
      d.pop_back();
      break;
    case 3:  // all: no shorter than the block
      d = datagram_of(job, p);
      leave_out_rows(d, all);
      break;
    default: {
      Header h = header_of(d);
      h.flags |= kFlagZero;
      set_header(d, h);
      out.why = Drop::kFlags;
      break;
    }
  }
  return out;
}

}  // namespace tally
