#pragma once
// A job whose workers and box are the product's, in virtual time: a link for every worker, both ways, and the box's cores.
// Its owner may have further lines, which meet the links of workers.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "clock.h"
#include "frames.h"
#include "lines.h"
#include "switch_node.h"
#include "tally/error.h"
#include "tally/time.h"
#include "worker_node.h"

namespace tally::bench {

struct RackOptions {
  std::uint32_t workers = 2;
  double gbps = 25;            // of every link, each way
  TimeNs hop = 500;            // from the end of a packet on a link to where it waits next
  std::uint8_t box_cores = 4;  // a power of two
  // A packet takes a core of the box so long: docs/performance.md has 157 ns for one of 256 values whose results are sent
  // to each worker by itself.
  double box_packet_ns = 60;
  double box_byte_ns = 0.09;
  std::uint16_t elements = 352;  // of a packet of sums at an MTU of 1500
  std::uint32_t window = 256;
  std::uint64_t seed = 1;
  std::size_t beside = 0;  // further lines
};

inline constexpr std::uint32_t kFraming = 24;  // FCS, preamble and gap of a frame

class Rack {
 public:
  // heard: called when a packet was handed to a worker.
  Rack(const RackOptions& options, std::function<void(std::uint32_t worker)> heard);

  // All of them run.
  [[nodiscard]] Result<void> join();
  // Sums that each worker began at `begin`; all go on until the last has its own. The time that it took.
  [[nodiscard]] Result<TimeNs> finish(std::span<const engine::OperationId> ids, TimeNs begin);

  [[nodiscard]] Clock& clock() noexcept { return clock_; }
  [[nodiscard]] Lines& lines() noexcept { return lines_; }
  [[nodiscard]] std::size_t up(std::uint32_t worker) const { return worker; }
  [[nodiscard]] std::size_t down(std::uint32_t worker) const { return options_.workers + worker; }
  [[nodiscard]] std::size_t core(std::size_t i) const { return 2 * std::size_t{options_.workers} + i; }
  [[nodiscard]] std::size_t beside(std::size_t i) const { return core(options_.box_cores) + i; }
  [[nodiscard]] double wire_ns(double bytes) const { return 8 / options_.gbps * bytes; }
  // What may wait for a worker's wire, as transports let it.
  [[nodiscard]] TimeNs backlog() const { return static_cast<TimeNs>(kPacketsThatWait * wire_ns(1'538)); }

  [[nodiscard]] std::uint32_t size() const noexcept { return options_.workers; }
  [[nodiscard]] sim::WorkerNode& worker(std::uint32_t w) { return *workers_[w]; }
  [[nodiscard]] std::uint64_t sent_again() const;  // contributions

 private:
  static constexpr int kPacketsThatWait = 16;

  void make_box();
  void make_workers();
  TimeNs to_box(std::uint32_t from, Bytes frame);

  RackOptions options_;
  std::function<void(std::uint32_t)> heard_;
  Clock clock_;
  sim::Workload workload_;
  sim::Agreement agreement_;
  Lines lines_;
  std::unique_ptr<sim::SwitchNode> box_;
  std::vector<std::unique_ptr<sim::WorkerNode>> workers_;
};

}  // namespace tally::bench
