// Worker engine -> net_ring -> pipeline -> net_ring -> worker engine, in real mbufs and virtual time, in one
// thread. What it shows: every sum is right to the bit, and every mbuf is back in its mempool exactly once,
// whatever is lost, refused or not to be had on the way.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "jobs.h"
#include "ring_box.h"
#include "ring_ports.h"
#include "ring_worker.h"
#include "workload.h"

namespace tally::e2e {
namespace {

constexpr std::uint16_t kWorld = 4;
constexpr std::uint32_t kOperations = 24;
constexpr std::uint32_t kLargest = 40'000;   // elements of an operation
constexpr TimeNs kTurn = 2 * kMicrosecond;   // what a turn that moves something takes
constexpr TimeNs kPatience = 600 * kSecond;  // of virtual time
constexpr std::uint32_t kMaxTurns = 2'000'000;

struct Case {
  std::string name;
  std::uint8_t cores = 1;
  double loss = 0;
  bool segments = true;  // the box's ports take chains
  unsigned ring = 1024;  // size of each port ring; one less is its room
  unsigned worker_mbufs = 2048;
  unsigned frame_mbufs = 1024;
  unsigned head_mbufs = 1024;
  unsigned body_mbufs = 1024;
  std::size_t receive_burst = 32;
  std::size_t transmit_burst = 32;
  std::uint32_t share_every = 0;
  std::uint32_t split_every = 0;
  bool restart = false;  // the box loses its slots half-way
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class World {
 public:
  explicit World(const Case& c)
      : case_(c),
        workers_pool_(make_pool("workers", c.worker_mbufs, kFrameRoom)),
        frames_(make_pool("frames", c.frame_mbufs, kFrameRoom)),
        heads_(make_pool("heads", c.head_mbufs, kMaxEncapsulation)),
        bodies_(make_pool("bodies", c.body_mbufs, 0)),
        loss_{.rng = Rng(5), .probability = c.loss},
        workload_(7, kOperations, kLargest) {
    std::vector<BoxPort> ports;
    for (std::uint16_t r = 0; r < kWorld; ++r) {
      cables_.push_back(std::make_unique<Cable>("cable" + std::to_string(r), c.cores, c.ring, c.segments,
                                                workers_pool_.get()));
      ports.push_back({cables_.back()->box_port(), cables_.back()->segments()});
    }
    const RingBoxOptions options{.cores = c.cores,
                                 .job = {.name = "smoke", .token = "smoke token", .workers = kWorld}};
    box_ = std::make_unique<RingBox>(options, ports, BoxPools{frames_.get(), heads_.get(), bodies_.get()},
                                     loss_);
    for (std::uint16_t r = 0; r < kWorld; ++r) add_worker(r);
  }

  // Until every worker has left and nothing is on its way. Returns whether that came to pass.
  bool run() {
    TimeNs now = 0;
    bool restart = case_.restart;
    for (std::uint32_t turn = 0; turn < kMaxTurns && now < kPatience; ++turn) {
      std::size_t moved = box_->turn(now);
      for (auto& w : workers_) moved += w->turn(now);
      if (moved == 0 && std::ranges::all_of(workers_, [](const auto& w) { return w->done(); })) return true;
      if (restart && workers_.front()->completed() >= kOperations / 2) {
        restart = false;
        box_->restart_data_plane(now);
      }
      now += kTurn;
      if (moved == 0) now = std::max(now, next_deadline());
    }
    return false;
  }

  [[nodiscard]] RingBox& box() noexcept { return *box_; }
  [[nodiscard]] const Loss& loss() const noexcept { return loss_; }
  [[nodiscard]] std::uint64_t sum(const std::function<std::uint64_t(const RingWorker&)>& of) const {
    std::uint64_t n = 0;
    for (const auto& w : workers_) n += of(*w);
    return n;
  }

  void expect_right_sums_and_all_mbufs_back() {
    for (auto& w : workers_) {
      w->release_shared();
      EXPECT_EQ(w->completed(), kOperations);
      for (const auto& what : w->wrong()) ADD_FAILURE() << what;
      // A payload that someone wrote while it was shared, or freed while it was read, fails its checks.
      for (const auto why :
           {Refused::kRunt, Refused::kCheck, Refused::kLength, Refused::kPayload, Refused::kSum})
        EXPECT_EQ(w->engine().statistics().of(why), 0U) << name_of(why);
    }
    for (const auto why :
         {Drop::kRunt, Drop::kCheck, Drop::kLength, Drop::kSum, Drop::kBadSum, Drop::kSource})
      EXPECT_EQ(box_->count(why), 0U) << name_of(why);
    for (rte_mempool* pool : {workers_pool_.get(), frames_.get(), heads_.get(), bodies_.get()})
      EXPECT_EQ(audit(pool), "");
  }

 private:
  void add_worker(std::uint16_t r) {
    RingWorkerOptions o;
    o.engine.job = "smoke";
    o.engine.token = "smoke token";
    o.engine.rank = Rank{r};
    o.engine.world = kWorld;
    o.engine.instance = 100U + r;
    o.engine.seed = 200U + r;
    o.engine.rto_floor = kPollRtoFloor;
    o.binding = test_binding(1, r);
    o.port = cables_[r]->worker_port();
    o.queues = case_.cores;
    o.receive_burst = case_.receive_burst;
    o.transmit_burst = case_.transmit_burst;
    o.share_every = case_.share_every;
    o.split_every = case_.split_every;
    workers_.push_back(std::make_unique<RingWorker>(o, workload_, workers_pool_.get(), loss_));
  }

  [[nodiscard]] TimeNs next_deadline() const {
    TimeNs next = box_->deadline();
    for (const auto& w : workers_) next = std::min(next, w->deadline());
    return next;
  }

  Case case_;
  // In the order of their construction: mempools outlive the cables, and those what sends into them.
  OwnedPool workers_pool_;
  OwnedPool frames_;
  OwnedPool heads_;
  OwnedPool bodies_;
  Loss loss_;
  sim::Workload workload_;
  std::vector<std::unique_ptr<Cable>> cables_;
  std::unique_ptr<RingBox> box_;
  std::vector<std::unique_ptr<RingWorker>> workers_;
};

class RingSmoke : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
};

TEST_P(RingSmoke, EverySumIsRightAndEveryMbufComesBack) {
  const Case& c = GetParam();
  World world(c);
  ASSERT_TRUE(world.run()) << "the workers did not finish";
  world.expect_right_sums_and_all_mbufs_back();

  // Each hardship happened where the case asks for it, and nowhere else.
  RingBox& box = world.box();
  const auto retransmissions =
      world.sum([](const RingWorker& w) { return w.engine().statistics().retransmissions; });
  const auto worker_no_mbuf = world.sum([](const RingWorker& w) { return w.mbufs().no_mbuf; });
  const auto worker_refused = world.sum([](const RingWorker& w) { return w.mbufs().refused; });
  const bool small_pools = c.head_mbufs < 1024;
  const bool small_rings = c.ring < 1024;
  EXPECT_EQ(world.loss().lost > 0, c.loss > 0);
  EXPECT_EQ(box.mbufs().no_mbuf > 0, small_pools);
  EXPECT_EQ(worker_no_mbuf > 0, small_pools);
  EXPECT_EQ(box.mbufs().refused > 0, small_rings);
  EXPECT_EQ(worker_refused > 0, small_rings);
  EXPECT_EQ(box.mbufs().copied > 0, c.share_every > 0);  // the workers only read, so they never copy
  EXPECT_EQ(box.count(Drop::kSegments) > 0, c.split_every > 0);
  EXPECT_EQ(box.count(Verdict::kHandOver) > 0, c.cores > 1);
  EXPECT_EQ(box.referred() > 0, c.segments);
  EXPECT_EQ(box.duplicated() > 0, !c.segments);
  EXPECT_EQ(box.rejects() > 0, c.restart || c.loss > 0);
  EXPECT_EQ(world.sum([](const RingWorker& w) { return w.linearised(); }) > 0, c.segments);
  const bool all_arrives = c.loss == 0 && !small_pools && !small_rings && c.split_every == 0;
  EXPECT_EQ(retransmissions > 0, !all_arrives);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, RingSmoke,
    testing::Values(
        Case{.name = "Clean"}, Case{.name = "Copies", .segments = false}, Case{.name = "Loss", .loss = 0.02},
        Case{.name = "LossAndCopies", .loss = 0.02, .segments = false}, Case{.name = "TwoCores", .cores = 2},
        Case{.name = "TwoCoresAndLoss", .cores = 2, .loss = 0.02},
        Case{.name = "SmallPools", .worker_mbufs = 100, .frame_mbufs = 4, .head_mbufs = 40, .body_mbufs = 30},
        Case{.name = "SmallRings", .ring = 64, .receive_burst = 8, .transmit_burst = 256},
        Case{.name = "SharedFrames", .share_every = 7}, Case{.name = "SplitFrames", .split_every = 50},
        Case{.name = "SharedSplitFrames", .share_every = 7, .split_every = 10},
        Case{.name = "Restart", .cores = 2, .restart = true}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace tally::e2e
