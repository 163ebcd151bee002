#pragma once
// Messages between the nodes of a key-value system, as bytes of a stream: a header of fixed size in front of keys, values,
// lens and text, each part in place so that what is received is used where it lies. Numbers of the header are big-endian,
// arrays as the machine has them. Pure; any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kv/slicing.h"
#include "tally/kv_core.h"

namespace tally::kv {

inline constexpr std::uint32_t kFrameMagic = 0x544b5653;  // "TKVS"
// Of all that nodes say to one another; they must have the same.
inline constexpr std::uint64_t kFrameVersion = 2;
inline constexpr std::size_t kFrameHeaderBytes = 64;

enum class FrameType : std::uint8_t {
  // Between the two ends of a connection, before all else: `keys` are words (handshake.h).
  kHello = 1,
  kProof,
  // Between scheduler and nodes (rendezvous.h).
  kRegister,
  kRoster,
  kReady,
  kBarrier,
  kRelease,
  kGone,
  // Between workers and servers.
  kRequest,
  kReply,
};
inline constexpr FrameType kLastFrameType = FrameType::kReply;

struct Frame {
  FrameType type = FrameType::kHello;
  bool push = false, pull = false;
  bool failed = false;  // the text says why, `index` at which key
  ValueKind kind{};
  int app = 0, customer = 0, timestamp = 0, cmd = 0, priority = 0;
  std::int64_t index = -1;
  Payload data{};
  std::string text{};
};

// How many bytes of what come behind a header.
struct FrameSizes {
  std::size_t keys = 0;  // elements
  std::size_t vals = 0;  // bytes, without what fills up to 8
  std::size_t lens = 0;  // elements
  std::size_t text = 0;  // bytes
  [[nodiscard]] std::size_t padding() const noexcept { return (8 - vals % 8) % 8; }
  [[nodiscard]] std::size_t total() const noexcept { return 8 * keys + vals + padding() + 4 * lens + text; }
};

using FrameHeader = std::array<std::byte, kFrameHeaderBytes>;

[[nodiscard]] FrameSizes sizes_of(const Frame& frame) noexcept;
[[nodiscard]] FrameHeader header_of(const Frame& frame) noexcept;
// Without its arrays and text. nullopt: no header of ours, or more behind it than `most` bytes.
struct ParsedHeader {
  Frame frame;
  FrameSizes sizes;
};
[[nodiscard]] std::optional<ParsedHeader> parse_header(std::span<const std::byte, kFrameHeaderBytes> bytes,
                                                       std::size_t most) noexcept;
// Where the arrays of a frame lie in its body, which is sizes.total() bytes, aligned to 8.
[[nodiscard]] Frame with_body(ParsedHeader parsed, const std::shared_ptr<std::byte>& body);

// Why a request cannot be, for its sender; nullopt if it can. What is checked of another's arrays before anybody counts on
// them.
[[nodiscard]] std::optional<Objection> objection_to_request(const Frame& frame);
// The same of a reply to a request for `keys` keys. A push needs none.
[[nodiscard]] std::optional<Objection> objection_to_reply(const Frame& frame, std::size_t keys, bool pull);

}  // namespace tally::kv
