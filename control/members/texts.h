#pragma once
// Pieces of the sentences that people read in JOINED(refused), ABORT and status.

#include <cstdint>
#include <string>
#include <string_view>

#include "tally/ids.h"
#include "tally/net.h"
#include "tally/time.h"

namespace tally::members {

// What people call the ranks of a job. At the box of a rack they know them by their numbers in the whole job, and the
// ranks of its parent are racks.
struct RankNames {
  const char* word = "rank";
  std::uint16_t first = 0;  // number of rank 0
};

[[nodiscard]] std::string address_text(const Ipv6& address);  // 10.0.0.3 or fd00::3
// "rank 3", "ranks 0, 2 and 5"
[[nodiscard]] std::string ranks_text(std::uint64_t ranks, const RankNames& names = {});
[[nodiscard]] std::string rank_text(Rank rank, const RankNames& names = {});  // "rank 3", "server 0"
// Workers and servers: "ranks 0 and 2 and server 1", "server 0".
[[nodiscard]] std::string members_text(std::uint64_t ranks, std::uint32_t servers,
                                       const RankNames& names = {});
[[nodiscard]] std::string seconds_text(TimeNs t);         // "10.0 s"
[[nodiscard]] std::string kib_text(std::uint64_t lines);  // lines of 64 bytes as "23 KiB", rounded up

// A server whose path carries less than the job's packets.
[[nodiscard]] std::string too_narrow_text(Rank server, std::uint16_t carries, std::uint16_t elements);

// At most kMaxTextBytes, cut at the start of a UTF-8 character.
[[nodiscard]] std::string_view bounded(std::string_view text) noexcept;

}  // namespace tally::members
