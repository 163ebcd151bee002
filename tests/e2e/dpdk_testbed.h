#pragma once
// EAL without hugepages for the tests of ports, pools without caches, and frames with recognisable bytes.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "dpdk/mbuf.h"
#include "dpdk/pools.h"
#include "dpdk/port.h"
#include "pool_audit.h"

#include <rte_mempool.h>

namespace tally::e2e {

// What EAL logged since the start, for the tests that look for a line.
[[nodiscard]] std::vector<std::string> logged_lines();

// Small pools have no caches: empty when their last mbuf is taken.
[[nodiscard]] dpdk::Pools small_pools(std::uint32_t frames, std::uint32_t heads, std::uint16_t room = 1600);

// A frame of `bytes` bytes, the first of which is `tag` and byte i is tag + i.
[[nodiscard]] rte_mbuf* tagged(rte_mempool* pool, std::uint32_t bytes, std::uint8_t tag,
                               dpdk::MbufCounters& counters);
// Whether bytes [from, m->pkt_len) of the frame are what tagged() wrote, in however many segments.
[[nodiscard]] bool has_tag(const rte_mbuf* m, std::uint32_t from, std::uint8_t tag);

// Everything that the port delivers within about a second, until `wanted` frames are there.
[[nodiscard]] std::vector<rte_mbuf*> receive_some(const dpdk::Port& port, std::size_t wanted);

// A directory that vanishes at the end.
class Scratch {
 public:
  Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace tally::e2e
