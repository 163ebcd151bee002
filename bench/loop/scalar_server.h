#pragma once
// What the loop is compared with: an aggregation server as research systems publish it beside their switch
// (SwitchML's parameter server on DPDK; OmniReduce's aggregator has the same inner loop). Written from what
// they do, in their way: one core polls; a packet is parsed, its values are converted by ntohl and added to
// its slot one by one; the last worker's packet gets the sums, by htonl; each worker gets a deep copy of it
// in a fresh mbuf, sent at once, and the packet is freed. Slots have two sets; a bitmap says who contributed,
// and contributing to one set gives up the worker's place in the other.
//
// It verifies nothing. It adds up the sums of the headers, two additions for each packet, so that Traffic can
// check its results as it checks the data plane's.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "tally/wire.h"

struct rte_mbuf;
struct rte_mempool;

namespace tally::bench {

class ScalarServer {
 public:
  enum class Loops : std::uint8_t {
    kOneByOne,    // as they are written
    kVectorised,  // the same source, as the compiler vectorises it for this CPU (SSE4.2, AVX2 or AVX-512)
  };

  // ethdev: started, queue 0. frames: for copies.
  ScalarServer(const jobs::NativeJob& job, const jobs::Box& box, std::uint16_t ethdev, rte_mempool* frames,
               Loops loops);

  // One burst.
  void turn() noexcept;
  // Frames that were not a new contribution of the job, or found no mbuf for a copy.
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }

 private:
  struct Slot {
    std::uint64_t seen = 0;  // bitmap of ranks
    std::uint32_t count = 0;
    std::uint32_t sum1 = 0;
    std::uint32_t sum2 = 0;
  };
  void handle(rte_mbuf* m) noexcept;
  [[nodiscard]] bool parse(const rte_mbuf* m, Header& header) const noexcept;
  void send_copies(rte_mbuf* m, const Header& header, Slot& slot, std::uint32_t* sums) noexcept;

  jobs::NativeJob job_;
  jobs::Box box_;
  std::uint16_t ethdev_;
  rte_mempool* frames_;
  void (*add_)(std::uint32_t* sums, const std::byte* values, std::size_t elements) noexcept;
  void (*take_)(std::byte* values, std::uint32_t* sums, std::size_t elements) noexcept;
  std::vector<Slot> slots_;          // by slot + window * set
  std::vector<std::uint32_t> sums_;  // elements of each
  std::vector<rte_mbuf*> copies_;    // one for each worker
  std::uint64_t lost_ = 0;
};

}  // namespace tally::bench
