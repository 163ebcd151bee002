#pragma once
// Which port a host is behind: a hash table that all data cores share without locks and without atomic
// read-modify-writes. A host is one word in a bucket of one cache line. Two cores that write the same word
// lose one of the two updates; then a host is learned with its next frame. Nothing else depends on it.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "tally/ids.h"
#include "tally/net.h"

namespace tally::l2 {

// A whole second of the cores' clock; their clocks may differ by a few.
using Seconds = std::uint64_t;

class MacTable {
 public:
  static constexpr Seconds kAgeing =
      300;  // a host that was silent for longer is forgotten (802.1D's default)
  static constexpr std::size_t kPorts = 64;  // ports below this fit into a word
  static constexpr std::size_t kWays = 8;    // hosts in a bucket
  static constexpr std::size_t kBuckets = 1024;

  enum class Learned : std::uint8_t {
    kKnown,
    kNew,
    kMoved,     // was behind another port
    kReplaced,  // is new, and the host of its bucket that was silent longest is forgotten for it
  };

  MacTable();

  // Any core, before the other two and with the same `now`: forgets the silent ones. Looks through the table
  // once in a second, otherwise costs one load.
  void age(Seconds now) noexcept {
    const Seconds aged = aged_.load(std::memory_order_acquire);
    if (now > aged) forget_silent(now, aged);
  }
  // Whether nobody that was heard by `aged`, when the silent ones were forgotten last, is young at `now`. A
  // core whose clock is behind may find an `aged` that is later than its `now`.
  [[nodiscard]] static constexpr bool nobody_is_young(Seconds now, Seconds aged) noexcept {
    return now > aged && now - aged > kAgeing;
  }
  // Any core. mac: of one host, not 0. port: below kPorts.
  Learned learn(const Mac& mac, PortIndex port, Seconds now) noexcept;
  [[nodiscard]] std::optional<PortIndex> find(const Mac& mac, Seconds now) const noexcept;
  // Hosts now; any thread.
  [[nodiscard]] std::size_t size(Seconds now) const noexcept;

 private:
  // 48 bits of MAC, 6 of port, 10 of the second of the last frame. 0: free.
  using Word = std::uint64_t;
  struct alignas(64) Bucket {
    std::array<std::atomic<Word>, kWays> words{};
  };

  void forget_silent(Seconds now, Seconds aged) noexcept;
  [[nodiscard]] std::size_t bucket_of(std::uint64_t mac) const noexcept;

  std::unique_ptr<std::array<Bucket, kBuckets>> buckets_;
  alignas(64) std::atomic<Seconds> aged_ = 0;
};

}  // namespace tally::l2
