#pragma once
// A worker on mbufs: the production engine, which writes its datagrams straight into them, and a program that
// runs the workload's plan and checks the bits of every sum.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binding.h"
#include "ring_mbuf.h"
#include "ring_ports.h"
#include "worker_engine.h"
#include "workload.h"

namespace tally::e2e {

inline constexpr std::uint16_t kFrameRoom = 2048;  // data room of a whole frame: MTU 1500 and its headers

struct RingWorkerOptions {
  EngineOptions engine;
  Binding binding;
  std::uint16_t port = 0;    // of ethdev
  std::uint16_t queues = 1;  // receive queues: one for each core of the box
  std::size_t receive_burst = 32;
  std::size_t transmit_burst = 32;
  // Frames that a box must take with care; 0: none.
  std::uint32_t share_every = 0;  // sent while the worker holds a second reference, as a flooding switch does
  std::uint32_t split_every = 0;  // sent in two segments
};

class RingWorker {
 public:
  RingWorker(const RingWorkerOptions& options, const sim::Workload& workload, rte_mempool* pool, Loss& loss);

  // Takes what arrived, lets the program submit, sends what is due. Returns the frames that came in or went
  // out.
  std::size_t turn(TimeNs now);
  [[nodiscard]] TimeNs deadline() const noexcept { return engine_->deadline(); }

  [[nodiscard]] std::uint32_t completed() const noexcept { return completed_; }
  // All operations completed, and the worker left.
  [[nodiscard]] bool done() const noexcept;
  [[nodiscard]] const std::vector<std::string>& wrong() const noexcept { return wrong_; }
  [[nodiscard]] const WorkerEngine& engine() const noexcept { return *engine_; }
  [[nodiscard]] const MbufCounters& mbufs() const noexcept { return mbufs_; }
  [[nodiscard]] std::uint64_t linearised() const noexcept { return linearised_; }

  // Drops the second references that it still holds.
  void release_shared();

 private:
  struct Running {
    std::uint32_t k = 0;
    sim::PlannedOperation plan;
    std::vector<std::int32_t> ints;
    std::vector<float> floats;
  };
  struct Shared {
    rte_mbuf* frame = nullptr;
    std::vector<std::byte> bytes;  // as sent
  };

  void take(rte_mbuf* m, TimeNs now);
  std::size_t transmit(TimeNs now);
  void wrap_in_place(rte_mbuf* m, std::uint32_t bytes, std::uint16_t destination_port);
  [[nodiscard]] rte_mbuf* split(rte_mbuf* m);
  void share(rte_mbuf* m);
  void submit(TimeNs now);
  void finish(const Completion& completion);

  RingWorkerOptions options_;
  const sim::Workload& workload_;
  rte_mempool* pool_;
  MbufCounters mbufs_;
  Outbox outbox_;
  std::unique_ptr<WorkerEngine> engine_;
  std::array<std::byte, kFrameRoom> line_{};  // a received chain in one piece
  std::uint64_t linearised_ = 0;
  std::uint32_t sent_ = 0;
  std::deque<Shared> shared_;

  std::map<OperationId, std::unique_ptr<Running>> running_;
  std::uint32_t submitted_ = 0;
  std::uint32_t completed_ = 0;
  bool leaving_ = false;
  std::vector<std::string> wrong_;
};

}  // namespace tally::e2e
