#include "forged_frame.h"

namespace tally {

Bytes datagram_of(const jobs::NativeJob& row, const Offered& p) {
  return make_contribution(
      row, {.rank = p.rank,
            .chunk = p.chunk,
            .values = p.values,
            .flags = static_cast<std::uint8_t>((p.overflow ? kFlagOverflow : 0) |
                                               (p.direct ? kFlagDirect : 0) | (p.zero ? kFlagZero : 0)),
            .dtype = p.shape.dtype,
            .exponent = p.exponent,
            .total = p.shape.total});
}

Forged forged_contribution(const jobs::NativeJob& job, Offered p, std::uint32_t which, std::uint16_t other) {
  p.zero = false;  // one thing is wrong at a time
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

}  // namespace tally
