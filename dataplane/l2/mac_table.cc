#include "l2/mac_table.h"

#include <cstring>

#include "tally/mix64.h"
#include "tally/time.h"

namespace tally::l2 {
namespace {

constexpr unsigned kMacBits = 48;
constexpr unsigned kPortBits = 6;
constexpr std::uint64_t kMacMask = (std::uint64_t{1} << kMacBits) - 1;
constexpr std::uint64_t kSecondMask = 1023;  // the last 10 bits of the second
// Seconds back from now that are a clock a little ahead of ours. Between two visits of age() no word becomes
// older than twice the ageing time, so the two cannot be taken for each other.
constexpr std::uint64_t kAhead = kSecondMask + 1 - 256;
static_assert(MacTable::kPorts == 1U << kPortBits && 2 * MacTable::kAgeing < kAhead);
static_assert((MacTable::kBuckets & (MacTable::kBuckets - 1)) == 0);

std::uint64_t number_of(const Mac& mac) noexcept {
  std::uint64_t number = 0;
  std::memcpy(&number, mac.data(), mac.size());
  return number;
}

std::uint64_t word_of(std::uint64_t mac, PortIndex port, Seconds now) noexcept {
  return mac | std::uint64_t{raw(port)} << kMacBits | (now & kSecondMask) << (kMacBits + kPortBits);
}

PortIndex port_of(std::uint64_t word) noexcept {
  return PortIndex{static_cast<std::uint16_t>(word >> kMacBits & (MacTable::kPorts - 1))};
}

Seconds age_of(std::uint64_t word, Seconds now) noexcept {
  const std::uint64_t age = (now - (word >> (kMacBits + kPortBits))) & kSecondMask;
  return age >= kAhead ? 0 : age;
}

bool holds(std::uint64_t word, std::uint64_t mac) noexcept { return (word & kMacMask) == mac; }

bool alive(std::uint64_t word, Seconds now) noexcept {
  return word != 0 && age_of(word, now) <= MacTable::kAgeing;
}

}  // namespace

MacTable::MacTable() : buckets_(std::make_unique<std::array<Bucket, kBuckets>>()) {}

std::size_t MacTable::bucket_of(std::uint64_t mac) const noexcept {
  return static_cast<std::size_t>(mix64(mac)) & (kBuckets - 1);
}

// Seconds wrap around in a word; after a pause in which that may have happened nobody is young. aged: as
// age() read it; another core may have stored a later second since.
void MacTable::forget_silent(Seconds now, Seconds aged) noexcept {
  const bool all = nobody_is_young(now, aged);
  for (Bucket& bucket : *buckets_) {
    for (auto& word : bucket.words) {
      const Word seen = word.load(std::memory_order_relaxed);
      if (seen != 0 && (all || !alive(seen, now))) word.store(0, std::memory_order_relaxed);
    }
  }
  aged_.store(now, std::memory_order_release);  // who reads this finds no word that is too old
}

// A host may be there twice, when two cores learned it at the same time into different places. The next frame
// of it leaves one of them.
MacTable::Learned MacTable::learn(const Mac& mac, PortIndex port, Seconds now) noexcept {
  const std::uint64_t number = number_of(mac);
  auto& words = (*buckets_)[bucket_of(number)].words;
  const Word wanted = word_of(number, port, now);
  std::atomic<Word>* known = nullptr;
  std::atomic<Word>* oldest = nullptr;
  Word before = 0;
  Seconds oldest_age = 0;
  for (auto& word : words) {
    const Word seen = word.load(std::memory_order_relaxed);
    if (holds(seen, number)) {
      if (known != nullptr) {
        word.store(0, std::memory_order_relaxed);
        if (age_of(seen, now) < age_of(before, now)) before = seen;
        continue;
      }
      known = &word;
      before = seen;
      continue;
    }
    const Seconds age = alive(seen, now) ? age_of(seen, now) : kNever;
    if (oldest != nullptr && age <= oldest_age) continue;
    oldest = &word;
    oldest_age = age;
  }
  std::atomic<Word>& place = known != nullptr ? *known : *oldest;
  if (place.load(std::memory_order_relaxed) != wanted) place.store(wanted, std::memory_order_relaxed);
  if (known != nullptr && alive(before, now))
    return port_of(before) == port ? Learned::kKnown : Learned::kMoved;
  return known == nullptr && oldest_age != kNever ? Learned::kReplaced : Learned::kNew;
}

std::optional<PortIndex> MacTable::find(const Mac& mac, Seconds now) const noexcept {
  const std::uint64_t number = number_of(mac);
  std::optional<PortIndex> port;
  Seconds youngest = kAgeing + 1;
  for (const auto& word : (*buckets_)[bucket_of(number)].words) {
    const Word seen = word.load(std::memory_order_relaxed);
    if (!holds(seen, number) || age_of(seen, now) >= youngest) continue;
    youngest = age_of(seen, now);
    port = port_of(seen);
  }
  return port;
}

std::size_t MacTable::size(Seconds now) const noexcept {
  if (nobody_is_young(now, aged_.load(std::memory_order_acquire))) return 0;
  std::size_t n = 0;
  for (const Bucket& bucket : *buckets_)
    for (const auto& word : bucket.words) n += alive(word.load(std::memory_order_relaxed), now) ? 1 : 0;
  return n;
}

}  // namespace tally::l2
