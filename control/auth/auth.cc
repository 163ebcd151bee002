#include "auth/auth.h"

#include <sodium.h>

#include <cstring>
#include <type_traits>

namespace tally::auth {
namespace {

static_assert(kTagBytes == crypto_generichash_BYTES_MIN);
static_assert(std::tuple_size_v<Key> == crypto_generichash_KEYBYTES);

// The header's bytes that a tag covers: those before sum1, which the payload's CRC becomes afterwards.
constexpr std::size_t kCovered = offsetof(Header, sum1);

// One BLAKE2b over pieces of fixed order and self-evident length; the first says what it is for.
class Hash {
 public:
  Hash(const Key* key, std::size_t bytes, std::string_view purpose) noexcept : bytes_(bytes) {
    // Picks the fastest implementation for this CPU; fails only where there is no randomness, of which
    // nothing here needs any.
    [[maybe_unused]] static const int ready = sodium_init();
    crypto_generichash_init(&state_, key == nullptr ? nullptr : key->data(), key == nullptr ? 0 : key->size(),
                            bytes_);
    add(std::as_bytes(std::span(purpose)));
  }
  void add(std::span<const std::byte> piece) noexcept {
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(piece.data()), piece.size());
  }
  template <class T>
  requires std::is_integral_v<T>
  void add(T number) noexcept {
    const Be big(number);
    add(std::as_bytes(std::span(&big, 1)));
  }
  // In front of it its length, so that no two texts run into each other.
  void add(std::string_view text) noexcept {
    add(static_cast<std::uint8_t>(text.size()));
    add(std::as_bytes(std::span(text)));
  }
  template <class Out>
  [[nodiscard]] Out finish() noexcept {
    Out out{};
    crypto_generichash_final(&state_, out.data(), bytes_);
    return out;
  }

 private:
  crypto_generichash_state state_;
  std::size_t bytes_;
};

}  // namespace

Key job_key(std::string_view name, std::string_view token) noexcept {
  Hash hash(nullptr, sizeof(Key), "tally 2 job");
  hash.add(name);
  hash.add(token);
  return hash.finish<Key>();
}

std::uint16_t token_check(const Key& job) noexcept {
  const auto whole = Hash(&job, sizeof(Key), "tally 2 token check").finish<Key>();
  return wire_at<Be<std::uint16_t>>(std::as_bytes(std::span(whole)).data()).host();
}

Key session_key(const Key& job, Generation generation, Epoch epoch, Cookie result, Cookie contribution,
                std::uint64_t instance, Rank rank) noexcept {
  Hash hash(&job, sizeof(Key), "tally 2 session");
  hash.add(raw(generation));
  hash.add(raw(epoch));
  hash.add(raw(result));
  hash.add(raw(contribution));
  hash.add(instance);
  hash.add(raw(rank));
  return hash.finish<Key>();
}

Key box_session_key(const Key& session, BoxIndex box) noexcept {
  Hash hash(&session, sizeof(Key), "tally 2 session of a box");
  hash.add(box);
  return hash.finish<Key>();
}

std::uint64_t rack_instance(const Key& job, std::span<const std::uint64_t> instances) noexcept {
  Hash hash(&job, sizeof(Key), "tally 2 rack");
  for (const std::uint64_t one : instances) hash.add(one);
  const auto whole = hash.finish<Key>();
  const std::uint64_t instance = wire_at<Be<std::uint64_t>>(std::as_bytes(std::span(whole)).data()).host();
  return instance != 0 ? instance : 1;
}

PlanId plan_id(std::span<const std::byte> plan) noexcept {
  Hash hash(nullptr, sizeof(PlanId), "tally 2 plan");
  hash.add(plan);
  return hash.finish<PlanId>();
}

Key box_key(std::span<const std::uint64_t, 4> words) noexcept {
  Hash hash(nullptr, sizeof(Key), "tally 2 box");
  hash.add(std::as_bytes(words));
  return hash.finish<Key>();
}

std::uint64_t word(const Key& key, std::uint64_t n) noexcept {
  Hash hash(&key, kTagBytes, "tally 2 word");
  hash.add(n);
  const Tag made = hash.finish<Tag>();
  std::uint64_t word = 0;
  std::memcpy(&word, &made, sizeof word);
  return word;
}

Tag tag_of(const Key& key, const Header& header, std::span<const std::byte> body) noexcept {
  Hash hash(&key, kTagBytes, "");
  hash.add(std::as_bytes(std::span(&header, 1)).first(kCovered));
  hash.add(body);
  return hash.finish<Tag>();
}

bool verify(const Key& key, const Header& header, std::span<const std::byte> payload) noexcept {
  if (payload.size() < kTagBytes) return false;
  Tag given;
  std::memcpy(given.data(), payload.last(kTagBytes).data(), kTagBytes);
  return equal(given, tag_of(key, header, body_of(payload)));
}

Tag challenge(const Key& box, std::span<const std::byte> binding, std::uint64_t instance,
              std::uint64_t period) noexcept {
  Hash hash(&box, kTagBytes, "challenge");
  hash.add(binding);
  hash.add(instance);
  hash.add(period);
  return hash.finish<Tag>();
}

bool equal(const Tag& a, const Tag& b) noexcept { return sodium_memcmp(a.data(), b.data(), kTagBytes) == 0; }

}  // namespace tally::auth
