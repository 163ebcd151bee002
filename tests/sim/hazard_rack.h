#pragma once
// A rack for tests that construct one hazard: jobs whose workers do nothing by themselves, a network that
// loses, copies, changes or records exactly the frames a rule names, and reductions whose sums are known.
// Nothing here is random but the moments at which workers start.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine_operation.h"
#include "frames.h"
#include "jobs.h"
#include "simulation.h"
#include "tally/wire.h"

namespace tally::sim {

inline constexpr auto kContribution = PacketType::kContribute;
// Before any that a worker has sent, serially: the box remembers the newest 64.
inline constexpr std::uint32_t kForgottenSequence = 0xFFFF'FF00;
inline constexpr auto kResult = PacketType::kResult;

struct RackOptions {
  std::uint16_t world = 2;
  std::uint16_t jobs = 1;  // all alike, "job0", "job1", ...; worker r of job j has link j * world + r
  std::uint32_t window = 16;
  std::uint16_t elements = 16;
  TimeNs lease = 3 * kSecond;
  Chunk first_chunk{};
  std::uint8_t cores = 1;
  std::uint32_t slot_lines = 1 << 14;
  bool vouched = false;
  Discipline discipline = Discipline::kPool;  // of all jobs
  std::uint32_t shared_entries = 8;           // of each core, when jobs share slots
  std::uint32_t server_states = 64;           // of each core, or of each external server
  // External ones, 0: embedded. Server i is server i of every job, on link server_link(i), and has started
  // before the first join().
  std::uint8_t servers = 0;
  std::vector<std::uint8_t> priorities;      // of each job's workers; what is missing: the greatest
  std::vector<std::uint8_t> job_priorities;  // in the configuration; what is missing: the greatest
  std::vector<std::uint32_t> windows;        // of each job; what is missing: `window`
  std::vector<members::Quota> quotas;        // of each job; what is missing: the default
  std::optional<members::StragglerPolicy> stragglers{};  // of all jobs
  std::uint64_t bits_per_second = 0;                     // of each link, both ways; 0: no frame takes time
  TimeNs rto_floor = engine::kPollRtoFloor;              // WorkerOptions
  TimeNs backlog = kNever;                               // WorkerOptions
  // More than one: every job is over all of them, and box 0 is its home. For jobs that share slots by ledger and have
  // external servers.
  std::uint8_t boxes = 1;
  members::PlanSource plans = members::even_plan;
  // Not empty: the one job is one of two levels, with so many workers in each rack, `world` all together. Box 0 is the
  // parent, box 1 + i that of rack i.
  std::vector<std::uint8_t> racks;
  std::vector<Rank> rivals;  // second processes for ranks of job 0, on the links behind all workers
};

// Ranks 0 to N/2 - 1 have the first of the usable boxes, the others the last one.
[[nodiscard]] Plan rack_for_each_half(const members::PlanRequest& request);

// With slots that all jobs share, unless `o` names a discipline of its own that shares them.
[[nodiscard]] inline RackOptions sharing(RackOptions o = {}) {
  if (!shares_slots(o.discipline)) o.discipline = Discipline::kShared;
  return o;
}

// Which frames a rule is about; what is not said matches all.
struct Match {
  std::optional<std::size_t> worker;  // link
  std::optional<bool> up;             // towards the box
  std::optional<PacketType> type;
  std::optional<Chunk> chunk;
  std::function<bool(const Header&)> also;
};

struct Rule {
  Match match;
  Fate fate = Fate::kPass;
  int left = 1 << 30;                        // times it still applies
  std::function<void(Bytes& frame)> change;  // runs before the frame is recorded; may rewrite it
  std::vector<Bytes> frames;                 // what it applied to
  [[nodiscard]] std::size_t hits() const noexcept { return frames.size(); }
};

inline constexpr TimeNs kPatience = 30 * kSecond;  // no repair in these tests takes longer

class HazardRack {
 public:
  explicit HazardRack(RackOptions options = {});
  HazardRack(const HazardRack&) = delete;
  HazardRack& operator=(const HazardRack&) = delete;
  ~HazardRack();  // an invariant that did not hold fails the test

  // Workers start and their job runs.
  void join() {
    for (std::uint16_t job = 0; job < options_.jobs; ++job) join(job);
  }
  void join(std::uint16_t job);
  [[nodiscard]] bool running(std::uint16_t job = 0);

  // Every rank of the job submits an int32 reduction of so many elements; returns its number.
  std::size_t reduce(std::uint32_t elements, std::uint16_t job = 0);
  // The rank takes its part in reduction `number` of the others, or of nobody yet.
  void reduce_at(std::uint16_t rank, std::size_t number, std::uint32_t elements, std::uint16_t job = 0);
  // Every rank its own values.
  std::size_t reduce_ints(const std::vector<std::vector<std::int32_t>>& of_ranks);
  std::size_t reduce_floats(const std::vector<std::vector<float>>& of_ranks,
                            const engine::OperationOptions& options = {});
  [[nodiscard]] bool done(std::uint16_t rank, std::size_t number, std::uint16_t job = 0);
  [[nodiscard]] bool done(std::size_t number, std::uint16_t job = 0);  // at every rank
  [[nodiscard]] bool failed(std::uint16_t rank, std::size_t number, std::uint16_t job = 0);
  [[nodiscard]] std::string error(std::uint16_t rank, std::size_t number, std::uint16_t job = 0);
  [[nodiscard]] const OperationStats& stats(std::uint16_t rank, std::size_t number, std::uint16_t job = 0);
  [[nodiscard]] const std::vector<float>& floats(std::uint16_t rank, std::size_t number);

  // Runs until every rank has the exact sums; a failed expectation says who has not.
  void expect_exact(std::size_t number, std::uint16_t job = 0, TimeNs patience = kPatience);
  void expect_exact_at(std::uint16_t rank, std::size_t number, std::uint16_t job = 0);
  // What the rank has are, element by element, the sums of exactly the ranks that its statistics name.
  void expect_named_at(std::uint16_t rank, std::size_t number, std::uint16_t job = 0);
  // The job goes on: three more chunks.
  void expect_healthy(std::uint16_t job = 0) { expect_exact(reduce(40, job), job); }

  template <class Done>
  bool until(Done done, TimeNs patience = kPatience) {
    return sim_->run_while_not(done, now() + patience);
  }
  void run_for(TimeNs time) { sim_->run_until(now() + time); }
  [[nodiscard]] TimeNs now() { return sim_->schedule().now(); }

  // Rules are asked in order of their making; the first that matches and does not pass decides. They live as
  // long as the rack.
  Rule& lose(Match match, int times = 1 << 30);
  Rule& copy(Match match, int times = 1 << 30);
  Rule& record(Match match);
  Rule& change(Match match, std::function<void(Bytes& frame)> how, int times = 1 << 30);

  // Frames made here. A datagram goes up from where the rank's process is, or down as if from the box.
  void inject_up(std::uint16_t rank, std::span<const std::byte> datagram, std::uint16_t job = 0);
  // As if the process had said it: the watch of what control obeys knows it.
  void say_up(std::uint16_t rank, std::span<const std::byte> datagram, std::uint16_t job = 0);
  void inject_down(std::uint16_t rank, std::span<const std::byte> datagram, std::uint16_t job = 0);
  // Recorded frames once more, on the same link and in the same direction, and time to be dealt with.
  void replay(const Rule& recorded, std::size_t worker, bool up);
  // Contributions that the box has received so long ago that it has forgotten their sequences.
  void replay_forgotten(const Rule& recorded, std::size_t worker);
  // The job as its members were told: for make_contribution and make_query.
  [[nodiscard]] jobs::NativeJob row(std::uint16_t job = 0);
  // What a rank of job 0 might say to control: with its secrets, its tag and its next counter.
  [[nodiscard]] Bytes control(PacketType type, std::uint16_t rank, Chunk chunk = {},
                              const std::string& text = {});
  // A whole RESULT (or anything else from the box) of the job's present epoch; the test spoils it.
  [[nodiscard]] Bytes result(Chunk chunk, std::vector<std::int32_t> sums, std::uint32_t total);

  [[nodiscard]] std::vector<std::uint16_t> ranks() const;
  [[nodiscard]] Simulation& sim() noexcept { return *sim_; }
  [[nodiscard]] SwitchNode& box(std::size_t i = 0) noexcept { return sim_->box(i); }
  // Of the rank to another box than box 0.
  [[nodiscard]] std::size_t link_to(std::size_t box, std::uint16_t rank,
                                    std::uint16_t job = 0) const noexcept {
    return sim_->link(link(rank, job), box);
  }
  // Of a job of racks: a worker's to its rack's box, and that of the box to the parent, which is "up".
  [[nodiscard]] std::size_t link_in_rack(std::uint16_t rank) const noexcept {
    return link_to(1 + rack_of(rank), rank);
  }
  [[nodiscard]] std::size_t link_to_parent(std::size_t rack) const noexcept {
    return sim_->link(sim_->uplink(rack), 0);
  }
  [[nodiscard]] std::size_t rack_of(std::uint16_t rank) const noexcept;
  // Of rack i's box: sums of the rack that it sent to its parent, and how often some went again.
  [[nodiscard]] pipeline::SlotCounters of_rack(std::size_t i) {
    return box(1 + i).shared_counters(box(1 + i).jobs().at(0));
  }
  [[nodiscard]] std::uint64_t drops_of_rack(std::size_t i, Drop why) {
    return box(1 + i).counters(box(1 + i).jobs().at(0)).of(why);
  }
  // All ranks and servers are enlisted at all boxes of the plan.
  [[nodiscard]] bool enlisted(std::uint16_t job = 0);
  // In the plan of job 0, as its home says; and whether members lost it.
  [[nodiscard]] bool planned(std::size_t box) { return status().boxes.value().boxes.at(box).planned; }
  [[nodiscard]] bool left_out(std::size_t box) { return status().boxes.value().boxes.at(box).left_out; }
  // Nothing passes the link any more, or nothing that a box says or hears.
  void cut(std::size_t link);
  void cut_off(std::size_t box);
  [[nodiscard]] WorkerNode& worker(std::uint16_t rank, std::uint16_t job = 0) {
    return sim_->worker(link(rank, job));
  }
  [[nodiscard]] ServerNode& server(std::size_t i = 0) { return sim_->server(i); }
  [[nodiscard]] std::size_t server_link(std::size_t i = 0) const noexcept {
    return std::size_t{options_.jobs} * options_.world + options_.rivals.size() + i;
  }
  [[nodiscard]] WorkerNode& rival(std::size_t i) {
    return sim_->worker(std::size_t{options_.jobs} * options_.world + i);
  }
  [[nodiscard]] const EngineStatistics& counted(std::uint16_t rank, std::uint16_t job = 0) {
    return worker(rank, job).engine().statistics();
  }
  [[nodiscard]] const engine::Membership& membership(std::uint16_t rank, std::uint16_t job = 0) {
    return worker(rank, job).engine().membership().value();
  }
  [[nodiscard]] JobId id(std::uint16_t job = 0) { return box().jobs().at(job); }
  [[nodiscard]] std::uint64_t drops(Drop why, std::uint16_t job = 0) {
    return box().counters(id(job)).of(why);
  }
  [[nodiscard]] std::uint64_t verdicts(Verdict verdict, std::uint16_t job = 0) {
    return box().counters(id(job)).of(verdict);
  }
  [[nodiscard]] pipeline::SlotCounters shared(std::uint16_t job = 0) {
    return box().shared_counters(id(job));
  }
  [[nodiscard]] std::uint64_t control_drops(members::MembershipDrop why) {
    return box().membership().counters().of(why);
  }
  [[nodiscard]] members::JobStatus status(std::uint16_t job = 0) {
    return *box().membership().status(id(job), now());
  }
  [[nodiscard]] const RackOptions& options() const noexcept { return options_; }
  [[nodiscard]] Bytes frame_up(std::uint16_t rank, std::span<const std::byte> datagram, std::uint16_t job);
  [[nodiscard]] std::size_t link(std::uint16_t rank, std::uint16_t job = 0) const noexcept {
    return std::size_t{job} * options_.world + rank;
  }

 private:
  struct Part {  // of one rank in one reduction
    std::optional<engine::OperationId> id;
    std::vector<std::int32_t> ints, int_sums;
    std::vector<float> floats, float_sums;
  };
  using Reduction = std::vector<Part>;

  [[nodiscard]] std::vector<std::int32_t> sums_of(std::size_t number, std::uint16_t job);
  void expect_sums_at(std::uint16_t rank, std::size_t number, std::uint16_t job,
                      const std::vector<std::int32_t>& wanted);
  Reduction& reduction(std::size_t number, std::uint16_t job);
  void submit_ints(std::uint16_t rank, std::size_t number, std::vector<std::int32_t> values,
                   std::uint16_t job);
  [[nodiscard]] const Result<OperationStats>* outcome(std::uint16_t rank, std::size_t number,
                                                      std::uint16_t job);
  [[nodiscard]] std::int32_t value(std::uint16_t rank, std::size_t number, std::size_t i,
                                   std::uint16_t job) const;
  [[nodiscard]] Fate decide(std::size_t worker, bool up, Bytes& frame);

  RackOptions options_;
  std::deque<Rule> rules_;
  std::map<std::size_t, std::uint64_t> counters_;  // newest of each link
  std::vector<std::deque<Reduction>> reductions_;  // of each job
  std::unique_ptr<Simulation> sim_;                // its engines point into the reductions: dies first
};

// The 56-byte header of a frame of this rack (Ethernet, IPv4, UDP in front), and the frame with another one.
[[nodiscard]] Header header_in(const Bytes& frame);
void set_header_in(Bytes& frame, const Header& h);
[[nodiscard]] Bytes datagram_in(const Bytes& frame);

}  // namespace tally::sim
