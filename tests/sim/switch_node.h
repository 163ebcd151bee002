#pragma once
// The box: production pipelines (one per data core) and membership engine, with the glue that the daemon will
// have: steering, hand-over, punts, publication with a grace period, replies. Can lose its slots or
// everything.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs.h"
#include "members/membership.h"
#include "members/plan_source.h"
#include "network.h"
#include "pipeline/pipeline.h"
#include "rng.h"
#include "schedule.h"
#include "shared_watch.h"

namespace tally::sim {

struct SwitchOptions {
  jobs::Box self = test_box();
  std::uint8_t cores = 1;
  std::uint32_t slot_lines = 1 << 14;
  std::uint32_t shared_entries = 0;   // of each core, at the end of slot_lines
  std::uint16_t shared_elements = 0;  // values of such an entry
  std::uint32_t server_lines = 0;     // memory of each core's embedded server
  bool staged = false;
  bool watched =
      true;  // false: without SharedWatch, which looks at every entry after every packet (benchmarks)
  std::vector<members::NativeConfig> jobs;
  members::PlanSource plans = members::even_plan;  // of jobs over several boxes
  std::vector<PortIndex> ports{};  // of a rack's box: all it has, behind one of which its parent is
};

class SwitchNode {
 public:
  // Sends a frame to the worker behind `to`.
  using Send = std::function<void(const jobs::Binding& to, Bytes frame)>;
  // Called with a sentence when an invariant does not hold.
  using Alarm = std::function<void(std::string)>;

  SwitchNode(Schedule& schedule, std::uint64_t seed, SwitchOptions options, Send send, Alarm alarm);

  void receive(const Bytes& frame, PortIndex port, bool vouched);
  void pause(TimeNs until) { paused_until_ = until; }  // its cores; what arrives is lost
  // Nothing runs, as when its host is stopped: what arrives waits in a queue, and control notices afterwards.
  void stall(TimeNs until);

  void restart_data_plane();  // slots and tables are gone, control goes on
  void restart();             // everything is gone but the configuration
  // The configuration changes: a job comes, a job goes. A restart keeps what it says then.
  JobId declare(const members::NativeConfig& job);
  void withdraw(std::string_view name);
  // Another window for a running pool job; refused if it does not run, which is no error here.
  bool resize(std::string_view name, std::uint32_t window);
  // Another plan for a job over several boxes whose home this is; refused if it is not, which is no error here.
  void replan(std::string_view name);
  // The fleet says which box is the home of a job over several. A restart forgets it: the configuration is right again,
  // until somebody says better.
  void set_home(std::string_view name, const Ipv6& home);
  // Of a job over several boxes, another box is the home, as this one knows.
  [[nodiscard]] bool is_elsewhere(std::string_view name) const;

  [[nodiscard]] members::MembershipEngine& membership() noexcept { return *membership_; }
  [[nodiscard]] const std::vector<JobId>& jobs() const noexcept { return jobs_; }
  [[nodiscard]] const SwitchOptions& options() const noexcept { return options_; }

  // Sums over the cores.
  [[nodiscard]] JobCounters counters(JobId job) const;
  [[nodiscard]] std::uint32_t occupancy(JobId job) const;
  [[nodiscard]] pipeline::SlotCounters shared_counters(JobId job) const;
  [[nodiscard]] server::MergeCounters server() const;
  [[nodiscard]] std::uint64_t incomplete(JobId job) const;  // results without everybody

  // What the data cores told control, oldest first, of all lives.
  [[nodiscard]] const std::vector<pipeline::Event>& events() const noexcept { return events_; }

  // Calls control with what time brought; a job is resized and so on by calls to membership() before it.
  void service();

 private:
  struct Core {
    std::unique_ptr<SlotMemory> memory;
    std::unique_ptr<SlotMemory> server_memory;
    std::unique_ptr<AnyPipeline> pipeline;
    std::shared_ptr<const jobs::JobTable> table;
    SharedWatch watch;
    TimeNs takes_up_at = 0;  // the newest publication
    bool sweeps = false;     // the next age sweep is scheduled
  };

  void start_cores();
  void end_life();
  void start_control();
  void make_known(const members::NativeConfig& job);
  void run(std::size_t core, Bytes& buffer, std::uint32_t length, PortIndex port, bool vouched);
  void send_nack(std::size_t core, const pipeline::Frame& frame);
  void send_owed(std::size_t core);
  void reply(const pipeline::Outcome& outcome, const pipeline::Frame& frame);
  void send_reject(const pipeline::Outcome& outcome, const pipeline::Frame& frame);
  void send_to_parent(const jobs::NativeJob& job, std::span<const std::byte> datagram);
  void post(const members::Outgoing& outgoing, std::span<const std::byte> datagram);
  void send_to(const jobs::Binding& to, std::span<const std::byte> datagram, std::uint16_t source_port);
  void drain_events(AnyPipeline& pipeline);
  void publish();
  void take_up(std::size_t core, const jobs::Publication& publication);
  void check_core(std::size_t core, const char* after, const std::optional<Arrival>& arrival = {});
  void sweep(std::size_t core);
  void sweep_later(std::size_t core);
  [[nodiscard]] std::uint32_t filling(std::size_t core) const;
  [[nodiscard]] bool has_to_sweep(std::size_t core) const;
  [[nodiscard]] std::uint32_t late_entries(std::size_t core) const;  // of jobs with stragglers that wait
  void rebalance();
  void rebalance_later();
  [[nodiscard]] std::uint64_t packets_counted(std::size_t core) const;

  Schedule& schedule_;
  Rng rng_;
  SwitchOptions options_;
  Send send_;
  Alarm alarm_;
  std::vector<Core> cores_;
  std::unique_ptr<members::MembershipEngine> membership_;
  std::vector<JobId> jobs_;  // as in options_.jobs
  // Ids that may have counted a packet in this life. true: once of a job with slots of its own.
  std::map<JobId, bool> ever_;
  std::map<JobId, std::uint64_t> denied_;  // when the shared slots were last divided
  std::vector<pipeline::Event> events_;
  std::uint64_t life_ = 0;  // restarts so far: events of an earlier life do nothing
  TimeNs next_service_ = kNever;
  TimeNs paused_until_ = 0;
  struct Waiting {
    Bytes frame;
    PortIndex port{};
    bool vouched = false;
  };
  TimeNs stalled_until_ = 0;
  std::deque<Waiting> waiting_;
};

}  // namespace tally::sim
