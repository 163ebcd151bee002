#pragma once
// Jobs of the dialect switchml: how their slot memory lies, and whose packets are whose. Their members are
// configured, not joined: nothing on the wire names the tenant, so a packet belongs to the member whose MAC,
// IPv4 address and UDP destination port it has.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "jobs/binding.h"
#include "tally/check.h"
#include "tally/ids.h"
#include "tally/mix64.h"
#include "tally/net.h"
#include "tally/switchml.h"

namespace tally::jobs {

// What says that two packets are of the same chunk.
enum class TsiRule : std::uint8_t {
  kPacket,  // (job_number, tsi); the set in pool_index only says which of the slot's two entries
  kOpaque,  // set and bitmap alone, as the original: for clients whose tsi means nothing; at most 32 members
};

inline constexpr std::uint32_t kMaxOpaqueMembers = 32;

inline constexpr std::uint32_t kPathsPerLine = 16;  // ranks' return paths in a line (registers.h)

// Lines of an entry that lie before its values: the registers, then 32 bits for each member, where its reply
// goes. world: 1..64.
constexpr std::uint32_t session_front_lines(std::uint32_t world) noexcept {
  return 1 + (world + kPathsPerLine - 1) / kPathsPerLine;
}

// Lines of one (slot, set). payload: bytes of values.
constexpr std::uint32_t session_entry_lines(std::uint32_t world, std::uint32_t payload) noexcept {
  return session_front_lines(world) + payload / 64;
}

// Lines of all entries on the home core: slot s, set v at entry 2 s + v.
constexpr std::uint32_t session_lines(std::uint32_t slots, std::uint32_t world,
                                      std::uint32_t payload) noexcept {
  return 2 * slots * session_entry_lines(world, payload);
}

// Who sends to which session: the match of the dialect switchml, for nothing on the wire names the tenant.
// Part of the job table: filled by control, then immutable.

struct SessionJob;

struct SessionSender {
  Mac mac{};                        // source
  std::uint16_t udp_port = 0;       // destination, host order
  Ipv4 address{};                   // source
  std::array<std::byte, 4> none{};  // two words without holes

  bool operator==(const SessionSender&) const noexcept = default;
};
static_assert(sizeof(SessionSender) == 16);

// What a session's packets from this member must have.
inline SessionSender sender_of(const Binding& member) noexcept {
  SessionSender sender{.mac = member.mac, .udp_port = member.udp_port};
  std::memcpy(sender.address.data(), member.address.data() + 12, sender.address.size());
  return sender;
}

struct SessionMember {
  const SessionJob* job = nullptr;  // nullptr: of no session
  Rank rank{};
};

// Open addressing, at most half full.
class SessionSenders {
 public:
  void add(const SessionSender& sender, SessionMember member) {
    if (2 * (used_ + 1) > rows_.size()) grow();
    Row& row = rows_[place(sender)];
    TALLY_CHECK(row.member.job == nullptr, "a MAC, address and port belong to one member of one session");
    row = {sender, member};
    ++used_;
  }
  [[nodiscard]] SessionMember find(const SessionSender& sender) const noexcept {
    return rows_.empty() ? SessionMember{} : rows_[place(sender)].member;
  }

 private:
  struct Row {
    SessionSender sender;
    SessionMember member;
  };

  // Of this sender's row, or of the empty one where it would be. rows_ is not empty.
  [[nodiscard]] std::size_t place(const SessionSender& sender) const noexcept {
    const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(sender);
    const std::size_t mask = rows_.size() - 1;
    std::size_t at = mix64(words[0] ^ mix64(words[1])) & mask;
    while (rows_[at].member.job != nullptr && rows_[at].sender != sender) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<Row> old(rows_.empty() ? 16 : 2 * rows_.size());
    old.swap(rows_);
    for (const Row& row : old)
      if (row.member.job != nullptr) rows_[place(row.sender)] = row;
  }

  std::vector<Row> rows_;  // a power of two, or none
  std::size_t used_ = 0;
};

}  // namespace tally::jobs
