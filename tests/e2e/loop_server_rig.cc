#include "loop_server_rig.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "dpdk/pools.h"
#include "loop_packets.h"
#include "pipeline/reply.h"
#include "pool_audit.h"
#include "tally/check.h"

namespace tally::e2e {
namespace {

constexpr std::uint32_t kSlotLines = 4'096;
constexpr std::uint16_t kElements = 64;
constexpr std::uint16_t kRoom = 2'048;
constexpr std::uint16_t kServersPort = 3;

dpdk::Mempool make_pool(const char* name, unsigned mbufs) {
  dpdk::Mempool pool(rte_pktmbuf_pool_create(name, mbufs, 0, 0, RTE_PKTMBUF_HEADROOM + kRoom, SOCKET_ID_ANY));
  TALLY_CHECK(pool != nullptr, "EAL's memory holds every mempool of the test");
  return pool;
}

// Of all who are not the box: more than can be under way at once, so that a sender whose box gets no CPU
// loses frames at a ring and never finds the pool empty.
unsigned far_mbufs(const RigCase& c) {
  constexpr unsigned kBursts = 4 * 64;  // in hand of a core: received, and to be sent
  const unsigned cables = kServersPort + 1;
  return cables * (c.up + c.down) * c.ring +
         c.cores * (dpdk::kServerQueueFrames + io::DataPlaneOptions{}.hand_over + kBursts);
}

jobs::Binding behind(std::uint16_t port, jobs::Binding b) {
  b.port = PortIndex{port};
  return b;
}

jobs::NativeJob job_of(const RigCase& c) {
  jobs::NativeJob job = make_job({.world = 3,
                                  .shards = c.cores,
                                  .elements = kElements,
                                  .servers = 2,
                                  .discipline = Discipline::kShared,
                                  .shared_slots = c.entries * c.cores});
  for (std::uint16_t r = 0; r < job.world; ++r)
    job.ranks[r].binding = behind(r, loop_binding(r, jobs::kUntagged, false));
  job.server_ranks[0].binding = behind(kServersPort, loop_binding(20, jobs::kUntagged, false));
  job.server_ranks[1].binding = behind(kServersPort, loop_binding(21, 7, true));
  return job;
}

Bytes bytes_of(const rte_mbuf* m) {
  Bytes all;
  for (; m != nullptr; m = m->next) all.insert(all.end(), dpdk::data_of(m), dpdk::data_of(m) + m->data_len);
  return all;
}

}  // namespace

ServerRig::ServerRig(const RigCase& c) : job(job_of(c)), far_(make_pool("far", far_mbufs(c))) {
  forget_sequences();  // of the rig before, whose box was another
  auto pools =
      make_plain_pools({.frames = c.frames, .heads = 512, .frame_room = kRoom, .cores = c.cores}, "rig");
  TALLY_CHECK(pools.has_value(), "EAL's memory holds the pools");
  frames_ = pools->frames[0];
  heads_ = pools->heads[0];
  std::vector<io::BoxPort> ports;
  for (std::uint16_t p = 0; p < kPorts; ++p) {
    const std::string name = "rig" + std::to_string(p);
    cables_.push_back(std::make_unique<Cable>(
        CableOptions{.name = name, .up = c.up, .down = c.down, .size = c.ring}, far_.get()));
    const dpdk::PortOptions o{.name = name, .receive_queues = c.up, .transmit_queues = c.down};
    auto port = dpdk::Port::adopt(cables_.back()->box_port(), o, frames_);
    TALLY_CHECK(port.has_value(), "the box takes the port");
    ports.push_back({std::move(*port)});
  }
  auto plane = io::DataPlane::create({.box = loop_box(),
                                      .cores = c.cores,
                                      .staged = c.staged,
                                      .slot_lines = kSlotLines,
                                      .shared_entries = c.entries,
                                      .shared_elements = kElements},
                                     std::move(*pools), std::move(ports), kernels::best_kernels());
  TALLY_CHECK(plane.has_value(), "the data plane is made");
  plane_ = std::move(*plane);
  plane_->publish(
      {.version = 1, .table = jobs::JobTable().with(job.id, std::make_shared<jobs::NativeJob>(job))});
}

ServerRig::~ServerRig() {
  plane_->stop();
  empty_cables();
}

void ServerRig::send(const Bytes& datagram, const jobs::Binding& from, std::uint16_t queue) {
  rte_mbuf* m = dpdk::allocate(far_.get(), mbufs_);
  ASSERT_NE(m, nullptr);
  const std::size_t head = pipeline::encapsulation_bytes(from);
  m->data_len = static_cast<std::uint16_t>(head + datagram.size());
  m->pkt_len = m->data_len;
  wrap_for_box({dpdk::data_of(m), head}, from, kBasePort, datagram);
  std::memcpy(dpdk::data_of(m) + head, datagram.data(), datagram.size());
  tally::dpdk::send(cables_[raw(from.port)]->worker_port(), queue, {&m, 1}, mbufs_);
}

void ServerRig::contribute(std::uint16_t rank, Chunk chunk, std::uint8_t flags, std::uint16_t queue) {
  const ContributionSpec spec{.rank = Rank{rank},
                              .chunk = chunk,
                              .values = std::vector<std::int32_t>(kElements, rank + 1),
                              .flags = flags,
                              .priority = 100};
  send(make_contribution(job, spec), member(rank), queue);
}

void ServerRig::say(PacketType type, Chunk chunk, std::uint64_t ranks,
                    const std::vector<std::int32_t>& values) {
  send(make_server_packet(job, type, chunk, ranks, values), server(server_of(chunk, job.servers)));
}

std::size_t ServerRig::turn() {
  std::size_t moved = 0;
  for (std::size_t c = 0; c < plane_->cores(); ++c) moved += plane_->turn(c, now);
  return moved;
}

std::vector<rte_mbuf*> ServerRig::take(std::uint16_t port) {
  std::vector<rte_mbuf*> all;
  std::array<rte_mbuf*, 64> room{};
  for (std::uint16_t q = 0; q < cables_[port]->options().down; ++q) {
    while (true) {
      const auto burst = dpdk::receive(cables_[port]->worker_port(), q, room);
      if (burst.empty()) break;
      all.insert(all.end(), burst.begin(), burst.end());
    }
  }
  return all;
}

std::vector<Arrival> ServerRig::received(const jobs::Binding& self) {
  std::vector<Arrival> all;
  for (rte_mbuf* m : take(raw(self.port))) {
    const Bytes line = bytes_of(m);
    dpdk::drop(m);
    const auto datagram = unwrap(line, self, nullptr, wrong_);
    if (datagram.data() == nullptr) continue;
    Be<std::uint16_t> source;
    std::memcpy(&source, line.data() + pipeline::encapsulation_bytes(self) - sizeof(UdpHeader),
                sizeof source);
    const Header h = header_of(datagram);
    all.push_back({h, source.host(), datagram.size()});
    if (h.elements.host() == 0) continue;
    const kernels::Sums sums =
        kernels::best_kernels().sums(datagram.data() + kHeaderBytes, h.elements.host());
    EXPECT_EQ(h.sum1.host(), sums.sum1 + keyed(jobs::keys_of(job, h.contributors.host()), h.chunk_id()));
    EXPECT_EQ(h.sum2.host(), sums.sum2);
  }
  return all;
}

void ServerRig::empty_cables() {
  for (std::uint16_t p = 0; p < kPorts; ++p)
    for (rte_mbuf* m : take(p)) dpdk::drop(m);
}

void ServerRig::expect_all_mbufs_back() {
  while (turn() != 0) continue;
  plane_->stop();
  empty_cables();
  for (rte_mempool* pool : {far_.get(), frames_, heads_}) EXPECT_EQ(audit(pool), "");
  EXPECT_EQ(sum(&io::CoreStatistics::server_queued), 0U);
  for (const auto& what : wrong_) ADD_FAILURE() << what;
}

std::uint64_t ServerRig::sum(OneWriter<std::uint64_t> io::CoreStatistics::*field) const {
  std::uint64_t n = 0;
  for (std::size_t c = 0; c < plane_->cores(); ++c) n += plane_->core(c).statistics.*field;
  return n;
}

}  // namespace tally::e2e
