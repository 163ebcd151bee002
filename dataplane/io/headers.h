#pragma once
// The headers in front of what leaves the box, made once for each receiver of a job, and frames of its own.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dpdk/mbuf.h"
#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "pipeline/reply.h"
#include "tally/ids.h"

namespace tally::io {

// Header templates of every member, multicast group, external server and parent of a job: made by control with the
// job's row, read by all data cores, immutable.

// One receiver: a member, the members that a multicast frame reaches, or a server.
struct Receiver {
  pipeline::HeaderTemplate header;
  PortIndex port{};
};

// Of a bitmap of ports; all of them if this one is not below 64.
constexpr std::uint64_t bit_of_port(PortIndex port) noexcept {
  return raw(port) < 64 ? std::uint64_t{1} << raw(port) : ~std::uint64_t{0};
}

struct JobHeaders {
  // before: of job_before, which this job replaces; a member that is where it was keeps its template.
  JobHeaders(const jobs::NativeJob& job, const jobs::Box& box, const JobHeaders* before = nullptr,
             const jobs::NativeJob* job_before = nullptr);
  // Of any other dialect: from the box to the member's own port.
  JobHeaders(const jobs::Job& job, const jobs::Box& box, const JobHeaders* before = nullptr,
             const jobs::Job* job_before = nullptr);

  bool ipv6 = false;       // some header of members or groups needs the payload's sum
  bool one_frame = false;  // multicast: the frames to all leaders are the same bytes
  // Bitmaps of ports; all of them if one is not below 64.
  std::uint64_t member_ports = 0;
  std::uint64_t group_ports = 0;              // multicast: of the leaders
  std::array<Receiver, kMaxRanks> members{};  // of sessions: but for UDP destination and port of the box
  std::array<Receiver, kMaxRanks> groups{};   // multicast, by leader
  std::array<Receiver, kMaxServers> servers{};
  std::vector<Receiver> parent{};  // of a racked job: by the parent's shard

 private:
  template <class Make>
  void set_members(const jobs::Job& job, const JobHeaders* before, const jobs::Job* job_before, Make header);
};

// By job id, beside a job table.
class HeaderTable {
 public:
  // Of `table`; takes over what `before`, the headers of `table_before`, has of rows and of members that did
  // not change: a template costs more than all else that a publication does for a member.
  HeaderTable(const jobs::JobTable& table, const jobs::Box& box, const HeaderTable* before,
              const jobs::JobTable* table_before);

  // job: a row of the table.
  [[nodiscard]] const JobHeaders& of(const jobs::Job& job) const noexcept { return *rows_[raw(job.id)]; }

 private:
  std::array<std::shared_ptr<const JobHeaders>, kMaxJobs + 1> rows_{};
};

// Frames of the box's own: REJECT, and what control sends.

// Before: the mempool. After: the caller owns a frame with `datagram` from the box to `to`. nullptr: no mbuf,
// which is counted, or the pool's data room is too small for it.
[[nodiscard]] rte_mbuf* make_frame(const jobs::Binding& to, const jobs::Box& box, std::uint16_t source_port,
                                   std::span<const std::byte> datagram, rte_mempool* pool,
                                   dpdk::MbufCounters& counters) noexcept;

}  // namespace tally::io
