#pragma once
// JOIN and JOINED as the worker sees them: the payload it writes, the payload it believes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine_options.h"
#include "tally/engine_statistics.h"
#include "tally/wire_join.h"
#include "worker_membership.h"

namespace tally {

struct JoinFacts {
  std::uint64_t nonce = 0;
  std::uint32_t attempt = 0;
  Chunk lowest{};           // first without a result; 0 without a generation
  Chunk next{};             // first never offered
  GenerationRecord last{};  // of the last JOINED(running); zero: none
};

inline constexpr std::size_t kMaxJoinBytes = sizeof(JoinPayload) + kMaxNameBytes + kMaxTokenBytes;

// Returns the bytes written; `out` holds kMaxJoinBytes.
std::size_t write_join(const EngineOptions& options, const JoinFacts& facts,
                       std::span<std::byte> out) noexcept;

struct Joined {
  JoinedPayload fixed;
  std::span<const std::byte> text;  // refused: why
};

// Lengths only. `payload` has at least the fixed part.
[[nodiscard]] std::optional<Refused> read_joined(std::span<const std::byte> payload, Joined& out) noexcept;

// JOINED(running) in host order, for a worker or a server that wished for `elements`; nothing if its values
// are out of the protocol's ranges, contradict each other or exceed the wish. Without the own key. Job,
// epoch and result cookie come from the header.
[[nodiscard]] std::optional<Membership> read_membership(const Header& header, const JoinedPayload& joined,
                                                        std::uint16_t elements) noexcept;
// The same for this worker, with its key.
[[nodiscard]] std::optional<Membership> to_membership(const Header& header, const JoinedPayload& joined,
                                                      const EngineOptions& options) noexcept;

// Text from the wire for people: control characters become '?'.
[[nodiscard]] std::string printable(std::span<const std::byte> text);

// "rank 3", "ranks 1, 4"; empty for no rank.
[[nodiscard]] std::string name_ranks(std::uint64_t ranks);

}  // namespace tally
