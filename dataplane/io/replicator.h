#pragma once
// One finished result becomes the frames that its members get. Owner: the core.

#include <cstdint>

#include "dpdk/mbuf.h"
#include "io/headers.h"
#include "jobs/job_table.h"
#include "pipeline/registers.h"

namespace tally::io {

class Egress;
struct CoreStatistics;

class Replicator {
 public:
  // heads: of this core, as in Pools.
  Replicator(rte_mempool* heads, Egress& egress, CoreStatistics& statistics) noexcept
      : heads_(heads), egress_(egress), statistics_(statistics) {}

  // Before: the core owns `m`, writable and of one segment, whose payload (in m's buffer, at least
  // kMaxEncapsulation bytes behind its start) is the RESULT for all members of `job`, or those of them (`ranks`, not 0)
  // that are reached from this box. After: the ports, or a mempool; members whose frame found no mbuf ask again.
  void replicate(rte_mbuf* m, const std::byte* payload, std::uint32_t payload_bytes, std::uint64_t ranks,
                 const jobs::NativeJob& job, const JobHeaders& headers, std::uint16_t source_port) noexcept;

  // The same for a stored result that only some ranks (bitmap, not 0) asked for.
  void repeat(rte_mbuf* m, const std::byte* payload, std::uint32_t payload_bytes, std::uint64_t ranks,
              const JobHeaders& headers, std::uint16_t source_port) noexcept;

  // The result of a session, new or stored, to `ranks` (bitmap, not 0) by their return paths.
  void answer_session(rte_mbuf* m, const std::byte* payload, std::uint32_t payload_bytes, std::uint64_t ranks,
                      const JobHeaders& headers, const pipeline::ReturnPaths& paths) noexcept;

 private:
  struct Result {
    rte_mbuf* m;
    const std::byte* payload;
    std::uint32_t payload_bytes;
    std::uint32_t payload_sum;
    std::uint16_t source_port;
  };
  void send_one_frame(const Result& result, const jobs::NativeJob& job, const JobHeaders& headers) noexcept;
  // ports: bitmap of at least those of `ranks`.
  void send_to_each(const Result& result, std::uint64_t ranks,
                    const std::array<Receiver, kMaxRanks>& receivers, std::uint64_t ports) noexcept;
  [[nodiscard]] bool send_chains(const Result& result, std::uint64_t ranks,
                                 const std::array<Receiver, kMaxRanks>& receivers) noexcept;
  void send_one_by_one(const Result& result, std::uint64_t ranks,
                       const std::array<Receiver, kMaxRanks>& receivers) noexcept;
  [[nodiscard]] rte_mbuf* replica(rte_mbuf* body, const Receiver& to, bool& referred) noexcept;

  rte_mempool* heads_;
  Egress& egress_;
  CoreStatistics& statistics_;
  std::array<Receiver, kMaxRanks> returning_{};  // of the session that is answered
  unsigned first_ = 0;  // rank that is served first: the one that went short last time
};

}  // namespace tally::io
