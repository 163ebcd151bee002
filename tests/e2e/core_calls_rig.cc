#include "core_calls_rig.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "dpdk/eal.h"
#include "kernels/kernels.h"
#include "tally/check.h"

#include <rte_launch.h>

namespace tally::e2e {
namespace {

using bench::Traffic;
using Clock = std::chrono::steady_clock;

constexpr std::uint8_t kMembers = 2;
constexpr std::uint16_t kElements = 256;
constexpr std::uint32_t kWindow = 2048;
constexpr std::size_t kBuffers = 256;
constexpr std::uint16_t kHandOver = 4096;
constexpr auto kPatience = std::chrono::seconds(30);

jobs::NativeJob job_of(std::uint8_t cores, ResultsMode results) {
  jobs::NativeJob job = bench::make_job({.world = kMembers, .elements = kElements, .results = results});
  job.shards = cores;
  job.window = kWindow;
  job.span = 2 * kWindow;
  job.slots.count = jobs::pool_lines(kWindow, cores, kElements);
  return job;
}

dpdk::Pools pools_of(std::uint8_t cores, const dpdk::PortNeeds& needs) {
  static int number = 0;
  auto pools = dpdk::make_pools(
      dpdk::plan_pools(
          {.ports = {needs}, .cores = std::vector<int>(cores, dpdk::kAnyNode), .hand_over = kHandOver}),
      "calls" + std::to_string(number++));
  TALLY_CHECK(pools.has_value(), "EAL's memory holds every mempool of the test");
  return std::move(*pools);
}

dpdk::Mempool pool_of_members() {
  static int number = 0;
  auto pool = dpdk::make_pool({.name = "members" + std::to_string(number++), .mbufs = 8191, .room = 1600});
  TALLY_CHECK(pool.has_value(), "EAL's memory holds every mempool of the test");
  return std::move(*pool);
}

// On the lcore.
int watch(void* why) {
  *static_cast<std::string*>(why) = watch_this_thread();
  return 0;
}

}  // namespace

CoreCallsRig::CoreCallsRig(std::uint8_t cores, ResultsMode results, const dpdk::PortNeeds& needs)
    : cores_(cores),
      job_(job_of(cores, results)),
      traffic_(job_, bench::job_box(), kernels::best_kernels(), 1),
      members_pool_(pool_of_members()),
      pools_(pools_of(cores, needs)),
      box_frames_(pools_.frames[0]),
      buffers_(kBuffers, std::vector<std::byte>(traffic_.frame_bytes())) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    std::memset(buffers_[i].data(), 0, buffers_[i].size());
    traffic_.paint(buffers_[i].data(), i);
  }
}

CoreCallsRig::~CoreCallsRig() {
  if (plane_ != nullptr) plane_->stop();
}

std::string CoreCallsRig::start(Ends ends) {
  members_ = std::move(ends.members);
  std::vector<io::BoxPort> ports;
  ports.push_back({.port = std::move(ends.box)});
  const io::DataPlaneOptions options{.box = bench::job_box(),
                                     .cores = cores_,
                                     .idle = io::IdlePolicy::kPoll,
                                     .slot_lines = job_.slots.count,
                                     .hand_over = kHandOver};
  auto plane = io::DataPlane::create(options, std::move(pools_), std::move(ports), kernels::best_kernels());
  TALLY_CHECK(plane.has_value(), "the data plane is made");
  plane_ = std::move(*plane);
  plane_->publish(
      {.version = 1, .table = jobs::JobTable().with(job_.id, std::make_shared<jobs::NativeJob>(job_))});
  for (std::size_t c = 0; c < cores_; ++c) {
    std::string why;
    TALLY_CHECK(rte_eal_remote_launch(watch, &why, dpdk::Eal::lcore(c)) == 0, "the lcore is free");
    rte_eal_wait_lcore(dpdk::Eal::lcore(c));
    if (!why.empty()) return why;
  }
  TALLY_CHECK(plane_->start().has_value(), "the data cores start");
  return {};
}

void CoreCallsRig::take() {
  received_ += members_->receive([&](std::span<const std::byte> frame) {
    if (frame.size() == traffic_.frame_bytes())
      traffic_.check(0, frame.data(), frame.data() + Traffic::kHeaders - kHeaderBytes);
  });
}

bool CoreCallsRig::play(std::uint64_t contributions, std::uint32_t window) {
  const std::uint64_t until = sent_ + contributions;
  const std::uint64_t each = job_.results == ResultsMode::kMulticast ? 1 : kMembers;
  const auto answers = [&] { return received_ / each * kMembers; };
  auto heard = Clock::now();
  take();  // a memif server can send only into buffers that its client has offered, with its first look
  while (sent_ < until || traffic_.delivered() != traffic_.chunks()) {
    const std::uint64_t before = received_;
    for (int i = 0; i < 32 && sent_ < until && sent_ < answers() + window; ++i) {
      std::vector<std::byte>& frame = buffers_[next_];
      if (!waits_)
        traffic_.next_headers(0, frame.data(),
                              std::span<std::byte, Traffic::kHeaders>(frame.data(), Traffic::kHeaders));
      waits_ = !members_->send(frame);
      if (waits_) break;
      next_ = (next_ + 1) % buffers_.size();
      ++sent_;
    }
    take();
    if (received_ != before) heard = Clock::now();
    if (Clock::now() - heard > kPatience) return false;
    if (received_ == before) std::this_thread::yield();
  }
  return true;
}

std::uint64_t CoreCallsRig::bursts() const {
  std::uint64_t n = 0;
  for (std::size_t c = 0; c < cores_; ++c) n += plane_->core(c).statistics.bursts;
  return n;
}

void CoreCallsRig::finish() {
  plane_->stop();
  if (traffic_.wrong() != nullptr) ADD_FAILURE() << traffic_.wrong();
  EXPECT_EQ(traffic_.delivered(), traffic_.chunks());
  EXPECT_GT(traffic_.compared(), 0U);
  std::uint64_t results = 0;
  for (std::size_t c = 0; c < cores_; ++c) {
    const io::CoreStatistics& core = plane_->core(c).statistics;
    results += core.results;
    EXPECT_EQ(core.no_mbuf.get() + core.refused.get() + core.hand_over_lost.get(), 0U) << "core " << c;
    EXPECT_EQ(core.sleeps.get(), 0U);
  }
  EXPECT_EQ(results, traffic_.chunks());
}

}  // namespace tally::e2e
