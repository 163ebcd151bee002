#include "loop_rack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "kernels/kernels.h"
#include "loop_eal.h"
#include "loop_packets.h"
#include "pool_audit.h"
#include "tally/check.h"

#include <rte_lcore.h>
#include <rte_mbuf.h>

namespace tally::e2e {
namespace {

constexpr TimeNs kTurn = 2 * kMicrosecond;  // what a turn that moves something takes in virtual time
constexpr TimeNs kVirtualPatience = 600 * kSecond;
constexpr std::uint32_t kMaxTurns = 2'000'000;
constexpr std::chrono::seconds kPatience{60};
constexpr std::uint32_t kSlotLines = 1 << 17;

TimeNs clock_now() {
  return static_cast<TimeNs>(std::chrono::steady_clock::now().time_since_epoch() /
                             std::chrono::nanoseconds(1));
}

// Room for the largest frame of the job.
std::uint16_t room_of(const RackCase& c) {
  return static_cast<std::uint16_t>(c.elements > 352 ? 9'216 : 2'048);
}

// Without a cache per lcore, so that a small pool is empty when its last mbuf is taken.
dpdk::Mempool make_pool(const std::string& name, unsigned mbufs, std::uint16_t room) {
  dpdk::Mempool pool(rte_pktmbuf_pool_create(
      name.c_str(), mbufs, 0, 0, static_cast<std::uint16_t>(RTE_PKTMBUF_HEADROOM + room), SOCKET_ID_ANY));
  TALLY_CHECK(pool != nullptr, "EAL's memory holds every mempool of the test");
  return pool;
}

}  // namespace

Rack::Rack(const RackCase& c)
    : case_(c),
      workload_(7, c.operations, c.largest),
      workers_pool_(make_pool("workers", c.worker_mbufs, room_of(c))) {
  config_.name = "loop";
  config_.token = "loop token";
  config_.workers = c.world;
  config_.elements = c.elements;
  config_.window = c.window;
  config_.priority = members::kMaxPriority;
  config_.results = c.multicast ? ResultsMode::kMulticast : ResultsMode::kUnicast;
  config_.stragglers = c.stragglers;
  for (std::uint16_t p = 0; p < c.world / c.per_port; ++p) {
    cables_.push_back(std::make_unique<Cable>(CableOptions{.name = "cable" + std::to_string(p),
                                                           .up = c.up,
                                                           .down = c.down,
                                                           .size = c.ring,
                                                           .segments = c.segments,
                                                           .copies = c.copies},
                                              workers_pool_.get()));
    hosts_.push_back(std::make_unique<LoopHost>(c.host, *cables_.back(), workers_pool_.get()));
  }
  make_plane();
  control_ = std::make_unique<LoopControl>(*plane_, kSlotLines, 11);
  job_ = control_->declare(config_);
  for (std::uint16_t r = 0; r < c.world; ++r) add_worker(r);
}

Rack::~Rack() {
  plane_->stop();
  for (const auto& host : hosts_) host->drain();
}

void Rack::make_plane() {
  auto pools = make_plain_pools({.frames = case_.frame_mbufs,
                                 .heads = case_.head_mbufs,
                                 .frame_room = room_of(case_),
                                 .cores = case_.cores},
                                "loop");
  TALLY_CHECK(pools.has_value(), "EAL's memory holds the pools");
  frames_ = pools->frames[0];
  heads_ = pools->heads[0];
  std::vector<io::BoxPort> ports;
  for (const auto& cable : cables_) {
    dpdk::PortOptions o;
    o.name = cable->options().name;
    o.receive_queues = case_.up;
    o.transmit_queues = case_.down;
    auto port = dpdk::Port::adopt(cable->box_port(), o, frames_);
    if (!port) std::fprintf(stderr, "%s\n", port.error().text().c_str());
    TALLY_CHECK(port.has_value(), "the box takes the port");
    const impair::ImpairOptions loss{.loss_ppm = case_.loss_ppm, .seed = 5};
    const bool impaired = case_.impair.in.on() || case_.impair.out.on();
    ports.push_back({std::move(*port), impaired ? case_.impair : impair::PortImpairment{loss, loss}});
  }
  io::DataPlaneOptions o;
  o.box = loop_box();
  o.cores = case_.cores;
  o.staged = case_.staged;
  o.slot_lines = kSlotLines;
  o.hand_over = case_.hand_over;
  auto plane = io::DataPlane::create(o, std::move(*pools), std::move(ports), kernels::best_kernels());
  if (!plane) std::fprintf(stderr, "%s\n", plane.error().text().c_str());
  TALLY_CHECK(plane.has_value(), "the data plane is made");
  plane_ = std::move(*plane);
}

void Rack::add_worker(std::uint16_t rank) {
  engine::EngineOptions o;
  o.job = config_.name;
  o.token = config_.token;
  o.rank = Rank{rank};
  o.world = case_.world;
  o.elements = case_.elements;
  o.instance = 100U + rank;
  o.seed = 200U + rank;
  o.rto_floor = engine::kPollRtoFloor;
  o.sparse = case_.zeros;
  const bool ipv6 = case_.ipv6 || (case_.ipv6_odd && rank % 2 == 1);
  const auto vlan = static_cast<std::uint16_t>(!case_.vlans ? jobs::kUntagged : rank % 2 == 0 ? 7 : 9);
  workers_.push_back(&hosts_[rank / case_.per_port]->add(
      std::make_unique<LoopWorker>(o, loop_binding(rank, vlan, ipv6), workload_)));
}

std::size_t Rack::turn() {
  std::size_t moved = 0;
  for (std::size_t c = 0; c < plane_->cores(); ++c) moved += plane_->turn(c, now_);
  moved += control_->turn(now_);
  for (const auto& host : hosts_) moved += host->turn(now_);
  now_ += kTurn;
  if (moved == 0) now_ = std::max(now_, next_deadline());
  return moved;
}

bool Rack::run(const std::function<void()>& each) {
  interrupted_ = false;
  for (std::uint32_t n = 0; n < kMaxTurns && now_ < kVirtualPatience && !interrupted_; ++n) {
    if (each) each();
    if (turn() == 0 && all_done()) return true;
  }
  return false;
}

bool Rack::run_threads(const std::function<void()>& each) {
  const auto started = plane_->start();
  EXPECT_TRUE(started.has_value()) << started.error().text();
  if (!started) return false;
  std::atomic<bool> stop = false;
  std::atomic<bool> done = false;
  std::thread hosts([&] {
    TALLY_CHECK(rte_thread_register() == 0, "the hosts' thread may use mempools with caches");
    std::uint32_t number = 0;
    while (!stop.load(std::memory_order_acquire)) {
      std::size_t moved = 0;
      for (const auto& host : hosts_) moved += host->turn(clock_now());
      if (babble_ && sum(&io::CoreStatistics::results) != 0) babble_once(number++);
      if (moved == 0) std::this_thread::yield();
      if (all_done()) done.store(true, std::memory_order_release);
    }
    rte_thread_unregister();
  });
  const auto until = std::chrono::steady_clock::now() + kPatience;
  interrupted_ = false;
  while (!done.load(std::memory_order_acquire) && !interrupted_ && std::chrono::steady_clock::now() < until) {
    if (each) each();
    now_ = clock_now();
    if (control_->turn(now_) == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  stop.store(true, std::memory_order_release);
  hosts.join();
  cut_off_ = true;
  plane_->stop();
  return done;
}

void Rack::babble_once(std::uint32_t number) {
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    hosts_[h]->try_send_raw(babble_(static_cast<std::uint16_t>(h), number),
                            static_cast<std::uint16_t>(number % case_.up));
}

void Rack::settle() {
  std::size_t moved = 1;
  while (moved != 0) {
    moved = 0;
    for (std::size_t c = 0; c < plane_->cores(); ++c) moved += plane_->turn(c, now_);
    for (const auto& host : hosts_) moved += host->drain();
    if (moved != 0 || plane_->next_due() == kNever) continue;
    now_ = std::max(now_, plane_->next_due());
    moved = 1;
  }
  plane_->stop();
}

bool Rack::all_done() const {
  return std::ranges::all_of(workers_, [](const LoopWorker* w) { return w->done(); });
}

TimeNs Rack::next_deadline() const {
  TimeNs next = std::min(control_->deadline(), plane_->next_due());
  for (const LoopWorker* w : workers_) next = std::min(next, w->engine().deadline());
  return next;
}

void Rack::expect_right_sums() {
  // A flipped bit is found by whoever comes across it first.
  const bool corrupts = case_.impair.in.corrupt_ppm != 0 || case_.impair.out.corrupt_ppm != 0;
  for (const LoopWorker* w : workers_) {
    EXPECT_EQ(w->completed(), case_.operations);
    for (const auto& what : w->wrong())
      if (!(corrupts && what.starts_with("a kernel would discard"))) ADD_FAILURE() << what;
    if (w->engine().state() == engine::EngineState::kClosed && w->completed() < case_.operations)
      ADD_FAILURE() << w->engine().why_closed().text();
    if (corrupts) continue;
    // A payload that someone wrote while it was shared, or freed while it was read, fails its checks.
    for (const auto why :
         {Refused::kRunt, Refused::kCheck, Refused::kLength, Refused::kPayload, Refused::kSum})
      EXPECT_EQ(w->engine().statistics().of(why), 0U) << name_of(why);
  }
  for (const auto& host : hosts_)
    for (const auto& what : host->wrong())
      if (!(corrupts && what.starts_with("a frame that is for nobody"))) ADD_FAILURE() << what;
  if (corrupts) return;
  for (const auto why : {Drop::kRunt, Drop::kCheck, Drop::kLength, Drop::kSum, Drop::kBadSum, Drop::kSource})
    EXPECT_EQ(count(why), 0U) << name_of(why);
}

void Rack::expect_all_mbufs_back() {
  EXPECT_EQ(plane_->mbufs_in_use(), 0U);
  for (rte_mempool* pool : {workers_pool_.get(), frames_, heads_}) EXPECT_EQ(audit(pool), "");
}

// What came in is in exactly one counter of the pipelines, or was lost by name before it reached them.
void Rack::expect_every_frame_counted() {
  const std::uint64_t packets = counted([](const JobCounters& c) { return c.packets(); });
  const impair::ImpairCounters impaired_in = impaired().in;
  EXPECT_EQ(impaired_in.lost, sum(&io::CoreStatistics::impaired_in));
  const std::uint64_t in = sum(&io::CoreStatistics::frames_in) + sum(&io::CoreStatistics::taken_over) +
                           impaired_in.duplicated - impaired_in.lost - impaired_in.overflow;
  EXPECT_LE(packets, in);
  // What a core could not hand to the one that sends for it is in hand_over_lost as well.
  EXPECT_GE(count(Verdict::kHandOver), sum(&io::CoreStatistics::handed_over));
  EXPECT_LE(count(Verdict::kHandOver),
            sum(&io::CoreStatistics::handed_over) + sum(&io::CoreStatistics::hand_over_lost));
  EXPECT_LE(sum(&io::CoreStatistics::taken_over), sum(&io::CoreStatistics::handed_over));
  EXPECT_EQ(count(Verdict::kComplete), sum(&io::CoreStatistics::results));
  EXPECT_EQ(count(Verdict::kForward), sum(&io::CoreStatistics::not_ours));
  // A shared frame found no copy; or frames waited on purpose when the cores were stopped.
  if (cut_off_ && case_.impair.in.timed()) return;
  EXPECT_GE(packets + sum(&io::CoreStatistics::no_mbuf), in);
}

io::DataPlane::ImpairedPort Rack::impaired() const {
  io::DataPlane::ImpairedPort all;
  for (std::uint16_t p = 0; p < plane_->ports(); ++p) {
    all.in += plane_->impaired(PortIndex{p}).in;
    all.out += plane_->impaired(PortIndex{p}).out;
  }
  return all;
}

std::uint64_t Rack::counted(const std::function<std::uint64_t(const JobCounters&)>& f) const {
  std::uint64_t n = 0;
  for (std::size_t core = 0; core < plane_->cores(); ++core) {
    n += f(plane_->core(core).counters(JobId{0}));
    for (const JobId job : control_->jobs()) n += f(plane_->core(core).counters(job));
  }
  return n;
}
std::uint64_t Rack::count(Verdict verdict) const {
  return counted([&](const JobCounters& c) { return c.of(verdict); });
}
std::uint64_t Rack::count(Drop drop) const {
  return counted([&](const JobCounters& c) { return c.of(drop); });
}
std::uint64_t Rack::sum(OneWriter<std::uint64_t> io::CoreStatistics::*field) const {
  std::uint64_t n = 0;
  for (std::size_t core = 0; core < plane_->cores(); ++core) n += plane_->core(core).statistics.*field;
  return n;
}
std::uint64_t Rack::of_workers(const std::function<std::uint64_t(const EngineStatistics&)>& f) const {
  std::uint64_t n = 0;
  for (const LoopWorker* w : workers_) n += f(w->engine().statistics());
  return n;
}
std::uint64_t Rack::of_hosts(const std::function<std::uint64_t(const LoopHost&)>& f) const {
  std::uint64_t n = 0;
  for (const auto& host : hosts_) n += f(*host);
  return n;
}

}  // namespace tally::e2e
