#pragma once
// What the generator's ranks have sent and received: which contribution is next, whether a result is the sum
// of what was contributed, which chunks are late and must be offered again, and how long each result took.
// Pure; nothing allocates once it is made.
//
// Chunks are counted from 0, the first of the job, in 64 bits. A rank sends chunk c only when chunk c -
// window has its result at all ranks, as docs/protocol.md wants it; of floats, chunk c - lookahead, which
// brings the exponent that c was quantised with.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/datagram.h"
#include "engine/worker_join.h"
#include "kernels/kernels.h"
#include "latency_histogram.h"
#include "load_frames.h"
#include "tally/wire.h"

namespace tally::bench {

struct Contributed {  // one contribution of a rank
  std::uint64_t chunk = 0;
  std::uint16_t rank = 0;
};

struct LedgerCounts {
  std::uint64_t sent = 0;     // contributions that a port took, repetitions not counted
  std::uint64_t chunks = 0;   // with their result at all ranks
  std::uint64_t results = 0;  // that were awaited: one for each rank, or for each port with multicast
  std::uint64_t late = 0;     // chunks without their result at a rank `deadline` after the last contribution
  std::uint64_t resent = 0;   // contributions sent again for these
  std::uint64_t repeats = 0;  // right results that a rank had; all of chunks finished everywhere, unchecked
  std::uint64_t corrupt =
      0;  // results whose values do not fit their sums: damaged under way, asked for again
  std::uint64_t foreign = 0;   // results of another job or epoch, which a worker ignores
  std::uint64_t compared = 0;  // results compared value by value as well
};

class ChunkLedger {
 public:
  // membership: of any rank. images: outlive it. deadline: ns.
  ChunkLedger(const engine::Membership& membership, std::uint16_t ports, const LoadImages& images,
              const kernels::Kernels& kernels, TimeNs deadline);

  // --- sending, for each port by itself: rank r is behind port r mod ports ---

  // The next first contribution of a port; nothing when the window is full, or the last chunk is reached.
  [[nodiscard]] std::optional<Contributed> next(std::size_t port) noexcept;
  // The port has taken it, with the values of `image`; now: when it was offered.
  void sent(const Contributed& what, ImageIndex image, TimeNs now) noexcept;
  // A contribution to be sent again through a port, and its values.
  [[nodiscard]] std::optional<Contributed> next_again(std::size_t port) noexcept;
  [[nodiscard]] ImageIndex image_of(const Contributed& what) const noexcept;
  void sent_again() noexcept { ++counts_.resent; }
  // Looks for late chunks; once a millisecond is enough.
  void scan(TimeNs now);
  // No new chunk is begun from now on, until go_on(); done() when all begun ones have their results
  // everywhere.
  void wind_up() noexcept;
  [[nodiscard]] bool done() const noexcept { return lowest_ == limit_; }
  void go_on() noexcept;

  // --- receiving ---

  // A RESULT that arrived at `port` for `rank`; multicast: for all ranks behind the port.
  void receive(const engine::Datagram& result, std::size_t port, std::uint16_t rank, bool multicast,
               TimeNs now) noexcept;

  // A contribution that came back as it was: the other end is an echo, and no box.
  void receive_echo(Chunk number, std::uint16_t rank, TimeNs now) noexcept;

  [[nodiscard]] Chunk number_of(std::uint64_t chunk) const noexcept {
    return first_ + static_cast<std::uint32_t>(chunk);
  }
  [[nodiscard]] Chunk next_number() const noexcept { return number_of(newest_); }
  [[nodiscard]] const LedgerCounts& counts() const noexcept { return counts_; }
  // From the last contribution of a chunk to each of its results.
  [[nodiscard]] LatencyHistogram& latency() noexcept { return latency_; }
  // What was wrong first; nullptr: nothing.
  [[nodiscard]] const char* wrong() const noexcept { return wrong_; }

  static constexpr std::uint64_t kSampleEvery = 128;  // every so many-th result is compared value by value

 private:
  struct Flight {
    std::uint64_t contributed = 0;  // ranks
    std::uint64_t delivered = 0;
    kernels::Sums sums{};
    std::int8_t exponent = kNoExponent;  // the greatest contributed
    TimeNs complete = 0;                 // when the last contribution was given to the port
    TimeNs due = kNever;
    bool late = false;
  };
  struct Lane {  // of one port
    std::vector<std::uint16_t> ranks{};
    std::uint64_t behind = 0;          // bitmap of them
    std::uint64_t step = 0;            // of the first of them, from base_ on
    std::size_t at = 0;                // in ranks
    std::vector<Contributed> again{};  // last in, first out; capacity for all in flight
  };
  [[nodiscard]] Flight& flight(std::uint64_t chunk) noexcept { return flights_[chunk & mask_]; }
  [[nodiscard]] std::optional<std::uint64_t> chunk_of(Chunk number) const noexcept;
  [[nodiscard]] bool right(const engine::Datagram& result, std::uint64_t chunk, const Flight& f) noexcept;
  // What workers compare with their own contribution: elements, dtype, total; and flags.
  [[nodiscard]] bool same_shape(const Header& h) const noexcept;
  [[nodiscard]] bool same_values(const engine::Datagram& result, std::uint64_t chunk) noexcept;
  void offer_again(std::uint64_t chunk, std::uint64_t ranks);
  void deliver(Flight& f, std::uint64_t ranks) noexcept;
  void fail(const char* what) noexcept {
    if (wrong_ == nullptr) wrong_ = what;
  }

  engine::Membership membership_;
  const LoadImages& images_;
  const kernels::Kernels& kernels_;
  TimeNs deadline_;
  Chunk first_;
  std::uint64_t skew_;        // chunks between a rank and the next one behind the same port
  std::uint64_t base_ = 0;    // first chunk since go_on()
  std::uint64_t lowest_ = 0;  // first without its result somewhere
  std::uint64_t newest_ = 0;  // one past the newest sent
  std::uint64_t limit_ = UINT64_MAX;
  std::uint64_t ahead_;  // chunks that may be sent from lowest_ on
  std::uint64_t mask_;   // window - 1, the window is a power of two: no division for each frame
  std::vector<Flight> flights_;
  std::vector<ImageIndex> of_rank_;  // [chunk mod window][rank]
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> expected_;  // of a sampled chunk
  LedgerCounts counts_;
  LatencyHistogram latency_;
  const char* wrong_ = nullptr;
};

}  // namespace tally::bench
