#pragma once
// A worker engine in a world of hand-made datagrams: what an honest box would send it, and a second engine
// that is told less.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "box_says.h"
#include "engine/worker_engine.h"
#include "tally/wire.h"

namespace tally {

using Bytes = std::vector<std::byte>;

inline constexpr std::uint16_t kWorld = 3;
inline constexpr Rank kSelf{1};
inline constexpr std::uint16_t kElements = 32;

[[nodiscard]] Header header_of(std::span<const std::byte> datagram);
// The check and a control payload's CRC made right again, where there is a header.
void reseal(Bytes& datagram);
// The tag of a control packet made right again, as whoever knows the token could.
void retag(Bytes& datagram, const engine::Membership& membership);
// sum1 and sum2 made those of the values, as for a finished sum of all members.
void resum(Bytes& datagram, const engine::Membership& membership);
[[nodiscard]] bool sums_right(std::span<const std::byte> datagram, const engine::Membership& membership);

// The box as the worker hears it, in one epoch.
struct Speaker {
  std::uint32_t epoch = 100;
  std::uint64_t generation = 0x1234567890abcdefULL;
  std::uint32_t window = 16;
  std::uint32_t first_chunk = 0;
  std::uint64_t counter = 0;
  bool sparse = false;

  [[nodiscard]] static auth::Key job_key() { return auth::job_key("fuzz", "token"); }
  [[nodiscard]] std::uint64_t result_cookie() const { return 0xAB00000000ULL + epoch; }
  [[nodiscard]] engine::Membership membership() const;
  [[nodiscard]] Header header(PacketType type) const;
  // Under the session key, each with the next counter.
  [[nodiscard]] Bytes tells(PacketType type, std::span<const std::byte> text = {});
  [[nodiscard]] Bytes calls_back();
  [[nodiscard]] Bytes knows_nothing_of(std::uint64_t counter) const;
  [[nodiscard]] Bytes joined(JoinStatus status, std::uint64_t nonce, std::span<const std::byte> text) const;
  // Of a contribution, or a zero run, to which the others contributed zeros and the same exponent.
  [[nodiscard]] Bytes result_of(std::span<const std::byte> contribution) const;
  // Of one chunk of a zero run alone; bit: one that it names.
  [[nodiscard]] Bytes result_of_run(std::span<const std::byte> run, std::uint32_t bit) const;
  [[nodiscard]] Bytes reject(RejectReason reason, std::uint32_t chunk, std::uint64_t contributors) const;
  [[nodiscard]] Bytes query(std::uint16_t asker, std::uint32_t chunk) const;
  // In the name of rank 0xFF00 + server.
  [[nodiscard]] Bytes resend(std::uint32_t server, std::uint32_t chunk, std::uint64_t ranks) const;
};

// An engine with its own copies of the operations' memory.
class Program {
 public:
  explicit Program(const engine::EngineOptions& options);

  // kind 0..4: float in place, int32 to other memory, two float spans, a barrier, one span that is empty. Of one seed in
  // four all values are zeros, and of another one most blocks of them.
  void submit(std::uint32_t kind, std::uint32_t elements, std::uint32_t seed, TimeNs now, TimeNs deadline);
  // Every datagram due now; ends the process if they do not end or do not fit.
  std::vector<Bytes> transmit(TimeNs now);

  [[nodiscard]] engine::WorkerEngine& engine() { return *engine_; }
  // All memory the engine may write.
  [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& memory() const { return memory_; }

 private:
  std::unique_ptr<engine::WorkerEngine> engine_;
  std::vector<std::vector<std::uint32_t>> memory_;
};

}  // namespace tally
