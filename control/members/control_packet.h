#pragma once
// The gate: a punted datagram becomes a header and a payload whose checks hold, or a named drop. Nothing here
// knows of jobs.

#include <cstddef>
#include <span>
#include <string_view>
#include <tl/expected.hpp>

#include "members/membership_status.h"
#include "tally/wire.h"

namespace tally::members {

struct ControlPacket {
  Header header{};
  std::span<const std::byte> payload{};  // into the datagram
};

struct JoinRequest {
  JoinPayload fixed{};
  Rank rank{};
  std::string_view name{};  // both into the datagram
  std::string_view token{};
};

template <class T>
using Gate = tl::expected<T, MembershipDrop>;

// A LEAVE, HEARTBEAT, ABORT, PROBE or JOIN whose two CRCs hold and whose length fits its type.
[[nodiscard]] Gate<ControlPacket> read_control(std::span<const std::byte> datagram) noexcept;

// The payload of a JOIN: lengths add up and every field is in its range.
[[nodiscard]] Gate<JoinRequest> read_join(const ControlPacket& packet) noexcept;

}  // namespace tally::members
