#pragma once
// Keys and tags of control packets (docs/protocol.md, 4.1). Everything is keyed BLAKE2b (RFC 7693), which
// libsodium and the standard libraries of several languages have. Pure; any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tally/ids.h"
#include "tally/wire.h"

namespace tally::auth {

// 32 secret bytes.
using Key = std::array<std::uint8_t, 32>;

// Of who knows the token. An empty token gives a key that whoever knows the name has.
[[nodiscard]] Key job_key(std::string_view name, std::string_view token) noexcept;

// By which boxes that share a store find out that they have different tokens for a job, before anybody is refused. It
// tells whoever reads it 16 bits of a token that is guessed, and misses one difference in 65,536.
[[nodiscard]] std::uint16_t token_check(const Key& job) noexcept;

// Of one process of a rank in one epoch of the job whose key is given.
[[nodiscard]] Key session_key(const Key& job, Generation generation, Epoch epoch, Cookie result,
                              Cookie contribution, std::uint64_t instance, Rank rank) noexcept;
// The same between it and a box of the plan that is not the home, so that what is said to one box is nothing to
// another (docs/protocol_boxes.md).
[[nodiscard]] Key box_session_key(const Key& session, BoxIndex box) noexcept;

// Of the box of a rack that has these processes for workers, by rank: none of another rack is the same, and it is the
// same when the box was restarted under them (docs/protocol_racks.md). Never 0.
[[nodiscard]] std::uint64_t rack_instance(const Key& job, std::span<const std::uint64_t> instances) noexcept;

// What names the bytes of a plan. Not secret.
[[nodiscard]] PlanId plan_id(std::span<const std::byte> plan) noexcept;

// A box's own, of its random words.
[[nodiscard]] Key box_key(std::span<const std::uint64_t, 4> words) noexcept;

// The n-th word that nobody can tell from all others: nonces.
[[nodiscard]] std::uint64_t word(const Key& key, std::uint64_t n) noexcept;

// Over the bytes of a header before its sums, and the body: the payload in front of the tag. Both as they
// leave.
[[nodiscard]] Tag tag_of(const Key& key, const Header& header, std::span<const std::byte> body) noexcept;

// Whether the payload ends in its tag. Takes the same time wherever it differs.
[[nodiscard]] bool verify(const Key& key, const Header& header, std::span<const std::byte> payload) noexcept;

// What a CHALLENGE holds and the next JOIN brings back: nobody can make it but the box, from no other binding
// and for no other time. binding: the bytes of it; period: of the box's clock.
[[nodiscard]] Tag challenge(const Key& box, std::span<const std::byte> binding, std::uint64_t instance,
                            std::uint64_t period) noexcept;

[[nodiscard]] bool equal(const Tag& a, const Tag& b) noexcept;

// The payload in front of its tag. payload: at least kTagBytes.
[[nodiscard]] inline std::span<const std::byte> body_of(std::span<const std::byte> payload) noexcept {
  return payload.first(payload.size() - kTagBytes);
}

}  // namespace tally::auth
