#pragma once
// The thread of a Worker: it owns engine and transport, and takes turns at receiving, sending, finishing
// operations and sleeping. Others reach it through post() alone.

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "api/debug_log.h"
#include "api/operation.h"
#include "api/transport.h"
#include "engine/engine_operation.h"
#include "engine/worker_engine.h"
#include "tally/time.h"

namespace tally {

// What other threads ask of the progress thread.

struct ReduceRequest {
  ElementType type = ElementType::kInt32;
  std::vector<engine::Segment> segments{};  // a barrier has none
  engine::OperationOptions options{};
  std::shared_ptr<OperationState> state{};
  std::optional<Error> refused{};  // not to be issued: only the callback is due
};
struct AbortRequest {
  std::string reason{};
};
struct LeaveRequest {};
// The Worker is destroyed: abort unless closed, a bounded moment to tell the box, then the end.
struct StopRequest {};

using ProgressRequest = std::variant<ReduceRequest, AbortRequest, LeaveRequest, StopRequest>;

class Progress {
 public:
  Progress(std::unique_ptr<Transport> transport, std::unique_ptr<engine::WorkerEngine> engine,
           std::shared_ptr<WorkerView> view, const WorkerOptions& options);

  void run();                          // the thread; returns after a StopRequest
  void post(ProgressRequest request);  // any thread; never blocks for long

  // A destroyed Worker waits that long for the box to hear of it.
  static constexpr TimeNs kFarewell = 200 * kMillisecond;

 private:
  // Datagrams sent in a turn, so that a long queue does not keep results from being received.
  static constexpr std::size_t kBurst = 32;
  // A path that takes nothing is asked again so soon; it cannot wake us.
  static constexpr TimeNs kPathRetry = kMillisecond;
  // Statistics are published at least so often under load.
  static constexpr TimeNs kPublishPeriod = kMillisecond;

  void turn();
  void read_clock() noexcept;
  bool take_requests();
  void handle(ReduceRequest& request);
  void handle(const AbortRequest& request);
  void handle(const LeaveRequest& request);
  void handle(const StopRequest& request);
  bool receive();
  bool transmit();
  void follow_membership();
  void follow_boxes();
  void finish_operations();
  void publish();
  void rest();
  void rest_closed();
  void never_started(const Error& error);
  void fail_requests(const Error& error);
  void finish(const std::shared_ptr<OperationState>& state, Result<OperationStats> result);
  [[nodiscard]] bool told() const noexcept;
  [[nodiscard]] bool ended() const noexcept;

  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<engine::WorkerEngine> engine_;
  const std::shared_ptr<WorkerView> view_;
  DebugLog log_;
  const bool poll_;
  const std::uint16_t rank_;

  std::mutex mutex_;                       // of the two below
  std::vector<ProgressRequest> requests_;  // in order of issue
  bool asleep_ = false;                    // in the transport's wait()
  std::condition_variable posted_;         // for when the transport is no longer waited on

  // The progress thread's own.
  TimeNs now_ = 0;
  std::vector<ProgressRequest> taken_;
  std::unordered_map<std::uint64_t, std::shared_ptr<OperationState>> pending_;  // by OperationId
  std::uint64_t datagrams_ = 0;
  std::uint64_t epochs_followed_ = 0;
  std::array<std::uint8_t, 6> box_mac_{};
  std::uint32_t boxes_followed_;
  Generation generation_{};  // 0: not joined yet
  bool path_full_ = false;
  bool stale_ = false;    // something happened since publish()
  bool unasked_ = false;  // published without asking the transport: to be asked when trouble_due_ comes
  bool closed_published_ = false;
  bool told_published_ = false;
  TimeNs published_at_ = 0;
  TimeNs trouble_due_ = 0;  // when the transport is asked again what went wrong
  bool stopping_ = false;
  TimeNs stop_at_ = kNever;
};

}  // namespace tally
