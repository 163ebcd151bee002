#pragma once
// A box with one port, its production data plane on lcores that are watched (call_watch.h), `idle: poll`; and
// the two members of a job, played by the thread of the test. Every result is checked.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "call_watch.h"
#include "contributions.h"
#include "core_calls_ends.h"
#include "io/data_plane.h"
#include "traffic.h"

namespace tally::e2e {

class CoreCallsRig {
 public:
  struct Ends {
    dpdk::Port box;
    std::unique_ptr<MembersEnd> members;
  };
  // EAL has been started. With two cores one of them reads the port, and half of the slots are the other's.
  // needs: of the box's port.
  explicit CoreCallsRig(std::uint8_t cores = 1, ResultsMode results = ResultsMode::kUnicast,
                        const dpdk::PortNeeds& needs = {
                            .frame_bytes = 1518, .receive_mbufs = 4096, .transmit_mbufs = 4096});
  CoreCallsRig(const CoreCallsRig&) = delete;
  CoreCallsRig& operator=(const CoreCallsRig&) = delete;
  ~CoreCallsRig();

  // For the ports, before start().
  [[nodiscard]] rte_mempool* box_pool() const noexcept { return box_frames_; }
  [[nodiscard]] rte_mempool* members_pool() const noexcept { return members_pool_.get(); }
  // A filter on every lcore that will be a data core; then the cores run. Empty, or why this process may not
  // watch.
  [[nodiscard]] std::string start(Ends ends);

  // The members send so many contributions, at most `window` without an answer, and take all the results.
  // False: answers stopped coming.
  [[nodiscard]] bool play(std::uint64_t contributions, std::uint32_t window = 3072);
  // Stops the cores. Nothing was lost, every chunk has its right sums at both members.
  void finish();

  [[nodiscard]] io::DataPlane& plane() noexcept { return *plane_; }
  // Receive bursts with frames, of all cores, so far.
  [[nodiscard]] std::uint64_t bursts() const;

 private:
  void take();

  std::uint8_t cores_;
  jobs::NativeJob job_;
  bench::Traffic traffic_;
  dpdk::Mempool members_pool_;
  dpdk::Pools pools_;
  rte_mempool* box_frames_;
  std::unique_ptr<MembersEnd> members_;
  std::unique_ptr<io::DataPlane> plane_;
  std::vector<std::vector<std::byte>> buffers_;  // frames; their values stay in them
  std::size_t next_ = 0;
  bool waits_ = false;  // buffers_[next_] is written and not yet sent
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace tally::e2e
