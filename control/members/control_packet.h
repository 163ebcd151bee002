#pragma once
// The gate: a punted datagram becomes a header and a payload whose checks hold, or a named drop. Nothing here
// knows of jobs.

#include <cstddef>
#include <span>
#include <string_view>
#include <tl/expected.hpp>

#include "auth/auth.h"
#include "members/membership_status.h"
#include "tally/wire.h"

namespace tally::members {

struct ControlPacket {
  Header header{};
  std::span<const std::byte> payload{};  // into the datagram
  // LEAVE, HEARTBEAT and ABORT:
  std::uint64_t counter = 0;
  std::string_view text{};  // the job's name, the reason
};

struct JoinRequest {
  JoinPayload fixed{};
  Rank rank{};
  std::string_view name{};  // into the datagram
  // Of the job: its sender has the token. nullptr: it has not shown that.
  const auth::Key* key = nullptr;
};

template <class T>
using Gate = tl::expected<T, MembershipDrop>;

// A LEAVE, HEARTBEAT, ABORT, PROBE or JOIN whose two CRCs hold and whose length fits its type. Tags are its
// job's business.
[[nodiscard]] Gate<ControlPacket> read_control(std::span<const std::byte> datagram) noexcept;

// The payload of a JOIN: lengths add up and every field is in its range.
[[nodiscard]] Gate<JoinRequest> read_join(const ControlPacket& packet) noexcept;

}  // namespace tally::members
