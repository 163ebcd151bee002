#pragma once
// The gate: a punted datagram becomes a header and a payload whose checks hold, or a named drop. Nothing here
// knows of jobs.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tl/expected.hpp>

#include "auth/auth.h"
#include "members/job_config.h"
#include "members/membership_status.h"
#include "tally/wire.h"

namespace tally::members {

struct ControlPacket {
  Header header{};
  std::span<const std::byte> payload{};  // into the datagram
  // LEAVE, HEARTBEAT, ABORT and LOST:
  std::uint64_t counter = 0;
  std::string_view text{};  // the job's name, the reason
};

// What JOIN and ENLIST have in common.
struct Request {
  Rank rank{};
  std::uint64_t instance = 0;
  std::uint64_t nonce = 0;
  std::uint32_t attempt = 0;
  Tag challenge{};
  std::string_view name{};  // into the datagram
  // Of the job: its sender has the token. nullptr: it has not shown that.
  const auth::Key* key = nullptr;
};

struct JoinRequest : Request {
  // Its worker joins no more, and never entered an epoch.
  [[nodiscard]] bool gives_up() const noexcept { return fixed.elements.host() == 0; }

  JoinPayload fixed{};
  std::uint64_t features = 0;  // that it understands; unknown bits are a later version's
  Epoch epoch{};               // of the box of a rack: whose entries it still has; 0: none, and of all others
};

struct EnlistRequest : Request {
  EnlistPayload fixed{};
  Epoch epoch{};
  Cookie cookie{};  // contribution cookie
};

struct PlanPacket {
  PlanPayload fixed{};
  Rank rank{};
  std::string_view name{};            // these two into the datagram
  std::span<const std::byte> page{};  // empty: please send it
};

// W and lookahead of a generation.
[[nodiscard]] constexpr bool is_window(std::uint32_t w) noexcept {
  return w >= kMinWindow && w <= kMaxWindow && std::has_single_bit(w);
}

template <class T>
using Gate = tl::expected<T, MembershipDrop>;

// What a box takes of control, if its two CRCs hold and its length fits its type. Tags are its job's business.
[[nodiscard]] Gate<ControlPacket> read_control(std::span<const std::byte> datagram) noexcept;

// Their payloads: lengths add up and every field is in its range.
[[nodiscard]] Gate<JoinRequest> read_join(const ControlPacket& packet) noexcept;
[[nodiscard]] Gate<EnlistRequest> read_enlist(const ControlPacket& packet) noexcept;
[[nodiscard]] Gate<PlanPacket> read_plan_packet(const ControlPacket& packet) noexcept;

}  // namespace tally::members
