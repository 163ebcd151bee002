#pragma once
// One port's hosts: workers behind a cable's end. Everything that arrives reaches each of them, as behind a
// switch that floods; a frame that none wanted is wrong.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "dpdk/mbuf.h"
#include "loop_cable.h"
#include "loop_worker.h"

namespace tally::e2e {

struct HostOptions {
  std::size_t receive_burst = 32;
  std::size_t transmit_burst = 32;
  // Frames that a box must take with care; 0: none.
  std::uint32_t share_every = 0;  // sent while the host holds a second reference, as a flooding switch does
  std::uint32_t split_every = 0;  // sent in two segments
  std::uint32_t stray_every = 0;  // sent on another queue than the shard's
};

class LoopHost {
 public:
  // pool: where its frames come from.
  LoopHost(const HostOptions& options, const Cable& cable, rte_mempool* pool)
      : options_(options), cable_(cable), pool_(pool) {}

  LoopWorker& add(std::unique_ptr<LoopWorker> worker);
  [[nodiscard]] std::vector<std::unique_ptr<LoopWorker>>& workers() noexcept { return workers_; }

  // Takes what arrived, lets the programs work, sends what is due. Returns the frames that came in or went
  // out.
  std::size_t turn(TimeNs now);
  // Sends a frame as it is.
  void send_raw(std::span<const std::byte> frame, std::uint16_t queue);
  // The same; false: the host has no mbuf.
  bool try_send_raw(std::span<const std::byte> frame, std::uint16_t queue);
  // Drops what arrived and the second references that it still holds. Returns the frames that arrived.
  std::size_t drain();

  [[nodiscard]] const dpdk::MbufCounters& mbufs() const noexcept { return mbufs_; }
  [[nodiscard]] std::uint64_t chains() const noexcept {
    return chains_;
  }  // frames of several segments received
  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
  [[nodiscard]] std::uint64_t received_bytes() const noexcept { return received_bytes_; }
  // Frames of plain_frame()'s EtherType: the switch's, for no worker.
  [[nodiscard]] std::uint64_t plain() const noexcept { return plain_; }
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] const std::vector<std::string>& wrong() const noexcept { return wrong_; }

 private:
  struct Shared {
    rte_mbuf* frame = nullptr;
    std::vector<std::byte> bytes;  // as sent
  };
  void take(rte_mbuf* m, TimeNs now);
  std::size_t transmit(LoopWorker& worker, TimeNs now);
  [[nodiscard]] rte_mbuf* split(rte_mbuf* m);
  void share(rte_mbuf* m);

  HostOptions options_;
  const Cable& cable_;
  rte_mempool* pool_;
  dpdk::MbufCounters mbufs_;
  std::vector<std::unique_ptr<LoopWorker>> workers_;
  std::array<std::byte, 10'000> line_{};  // a received chain in one piece
  std::uint64_t chains_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t plain_ = 0;
  std::uint32_t sent_ = 0;
  std::deque<Shared> shared_;
  std::vector<std::string> wrong_;
};

}  // namespace tally::e2e
