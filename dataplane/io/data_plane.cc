#include "io/data_plane.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "dpdk/eal.h"
#include "dpdk/threads.h"
#include "io/data_core_definitions.h"
#include "io/headers.h"
#include "l2/box_answers.h"
#include "pipeline/frame.h"
#include "pipeline/fused.h"
#include "pipeline/staged.h"
#include "tally/check.h"

#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mempool.h>
#include <rte_ring_elem.h>

namespace tally::io {
namespace {

constexpr std::uint32_t kEvents = 256;  // size of a core's ring of them

// What tells the random numbers of one core, queue, port and direction from the others.
std::uint64_t stream_of(std::size_t core, std::size_t queue, std::size_t port, bool out) {
  return (core << 48) | (queue << 32) | (port << 1) | (out ? 1U : 0U);
}

// EAL's libraries pass the core to its thread and back.
int launch(void* core) {
  dpdk::taking_over(core);
  static_cast<DataCore*>(core)->run();
  dpdk::handing_over(core);
  return 0;
}

void empty(rte_ring* ring) noexcept {
  std::array<rte_mbuf*, pipeline::kBurst> room{};
  for (auto burst = dpdk::receive(ring, room); !burst.empty(); burst = dpdk::receive(ring, room)) {
    for (rte_mbuf* m : burst) dpdk::drop(m);
  }
}

// For a frame of which it is not known yet by which port it leaves.
rte_mempool* widest(const dpdk::Pools& pools) {
  return *std::ranges::max_element(pools.frames, {}, dpdk::room_of);
}

std::string memory_sum(const DataPlaneOptions& o) {
  const std::size_t slots = std::size_t{o.slot_lines} * sizeof(jobs::Line);
  const std::size_t server = std::size_t{o.server_lines} * sizeof(jobs::Line);
  const std::size_t rings =
      5 * ring_bytes(o.hand_over, sizeof(void*)) + ring_bytes(kEvents, sizeof(pipeline::Event));
  const auto cores = static_cast<std::size_t>(o.cores);
  return std::to_string(cores) + " data cores x (" + std::to_string(slots) + " bytes of slots + " +
         std::to_string(server) + " bytes of the embedded server + " + std::to_string(rings) +
         " bytes of rings) = " + std::to_string(cores * (slots + server + rings)) + " bytes";
}

}  // namespace

struct DataPlane::State {
  State(const DataPlaneOptions& o, dpdk::Pools p, std::vector<BoxPort> b)
      : options(o), pools(std::move(p)), ports(std::move(b)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() = default;

  [[nodiscard]] bool make_memory();
  void make_cores(const kernels::Kernels& kernels);
  [[nodiscard]] CoreOptions options_of(std::size_t core, const kernels::Kernels& kernels);
  [[nodiscard]] rte_mbuf* next_of(ThreadRing CoreRings::*ring) noexcept;
  bool inject(PortIndex port, rte_mbuf* m) noexcept;
  void empty_all() noexcept;
  [[nodiscard]] bool taps_are_back() const noexcept;
  void check(const jobs::JobTable& table) const;
  void check(const jobs::NativeJob& job) const;

  DataPlaneOptions options;
  // In this order: ports hold mbufs of the pools, and cores send into ports.
  dpdk::Pools pools;
  std::vector<BoxPort> ports;
  l2::MacTable hosts;                          // behind the ports; cores share it
  std::vector<NodeMemory<jobs::Line>> slots;   // of each core
  std::vector<NodeMemory<jobs::Line>> server;  // of each core
  std::vector<CoreRings> rings;                // of each core
  std::vector<std::unique_ptr<DataCore>> cores;
  std::unique_ptr<PublicationChain> chain;
  std::vector<std::unique_ptr<TraceTap>> taps;  // of each core; empty: there was no trace yet
  std::vector<std::uint64_t> taps_taken;        // turns of each core when its tap was taken back; empty: lent
  std::size_t next_tap = 0;
  dpdk::MbufCounters mbufs;    // of control
  std::size_t next_punts = 0;  // core whose punts control looks at next
  std::size_t punts_taken = 0;
  alignas(64) std::atomic<bool> stop{false};
};

bool DataPlane::State::make_memory() {
  const auto producers = options.cores > 2 ? Producers::kSeveral : Producers::kOne;
  const std::uint32_t size = options.hand_over;
  for (std::size_t c = 0; c < options.cores; ++c) {
    const int socket = dpdk::Eal::node(c);
    slots.push_back(make_lines(std::max(options.slot_lines, 1U), socket));
    server.push_back(make_lines(std::max(options.server_lines, 1U), socket));
    CoreRings r{.handed_over = make_ring(size, sizeof(void*), producers, socket),
                .to_send = make_ring(size, sizeof(void*), producers, socket),
                .injected = make_ring(size, sizeof(void*), Producers::kOne, socket),
                .member_punts = make_ring(size, sizeof(void*), Producers::kOne, socket),
                .punts = make_ring(size, sizeof(void*), Producers::kOne, socket),
                .events = make_ring(kEvents, sizeof(pipeline::Event), Producers::kOne, socket)};
    if (!slots.back() || !server.back() || !r.handed_over || !r.to_send || !r.injected || !r.member_punts ||
        !r.punts || !r.events)
      return false;
    rings.push_back(std::move(r));
  }
  return true;
}

CoreOptions DataPlane::State::options_of(std::size_t core, const kernels::Kernels& kernels) {
  CoreOptions o{.index = static_cast<std::uint8_t>(core),
                .box = options.box,
                .mode = options.mode,
                .hosts = &hosts,
                .idle = options.idle,
                .widest = widest(pools),
                .heads = pools.heads[core],
                .kernels = &kernels,
                .key = options.key,
                .stop = &stop};
  for (const CoreRings& r : rings) o.owners.push_back(r.handed_over.get());
  for (std::size_t p = 0; p < ports.size(); ++p) {
    const dpdk::PortTraits& t = ports[p].port.traits();
    const impair::PortImpairment& impair = ports[p].impair;
    for (std::size_t q = core; q < t.receive_queues; q += options.cores)
      o.ingress.push_back({t,
                           static_cast<std::uint16_t>(q),
                           PortIndex{static_cast<std::uint16_t>(p)},
                           {impair.in, stream_of(core, q, p, false)}});
    const std::size_t sender = core % t.transmit_queues;
    o.egress.push_back({t,
                        static_cast<std::uint16_t>(core),
                        sender == core ? nullptr : rings[sender].to_send.get(),
                        {impair.out, stream_of(core, core, p, true)}});
  }
  return o;
}

void DataPlane::State::make_cores(const kernels::Kernels& kernels) {
  std::vector<PublicationReader*> readers;
  for (std::size_t c = 0; c < options.cores; ++c) {
    CoreOptions o = options_of(c, kernels);
    o.slots = jobs::Region(slots[c].get(), options.slot_lines);
    o.server = jobs::Region(server[c].get(), options.server_lines);
    o.shared = jobs::shared_region(options.slot_lines, options.shared_entries, options.shared_elements);
    if (options.make_core != nullptr)
      cores.push_back(options.make_core(std::move(o), rings[c]));
    else if (options.staged)
      cores.push_back(std::make_unique<PipelineCore<pipeline::Staged>>(std::move(o), rings[c]));
    else
      cores.push_back(std::make_unique<PipelineCore<pipeline::Fused>>(std::move(o), rings[c]));
    readers.push_back(&cores.back()->publications);
  }
  chain = std::make_unique<PublicationChain>(options.box, std::move(readers));
}

void DataPlane::State::empty_all() noexcept {
  for (const CoreRings& r : rings) {
    for (rte_ring* ring :
         {r.handed_over.get(), r.to_send.get(), r.injected.get(), r.member_punts.get(), r.punts.get()})
      empty(ring);
    rte_ring_reset(r.events.get());
  }
  for (const auto& core : cores) core->drop_queued();
}

// The loop indexes cores, lines and ports by what a row says.
void DataPlane::State::check(const jobs::JobTable& table) const {
  for (std::uint16_t id = 1; id <= kMaxJobs; ++id) {
    const jobs::Row& row = table.row(JobId{id});
    const jobs::Job* const job = jobs::job_of(row);
    if (job == nullptr) continue;
    TALLY_CHECK(std::uint64_t{job->slots.first} + job->slots.count <= options.slot_lines,
                "a job's lines lie in slot memory");
    for (std::uint32_t r = 0; r < job->world; ++r)
      TALLY_CHECK(raw(job->ranks[r].binding.port) < ports.size(), "a member is behind a port of the box");
    const auto needed = [](const auto& any) { return jobs::cores_of(*any); };
    TALLY_CHECK(jobs::with_dialect(row, needed) <= options.cores, "a job is on data cores of the box");
    const auto* const native = jobs::row_as<jobs::NativeJob>(row);
    if (native != nullptr) check(*native);
  }
}

void DataPlane::State::check(const jobs::NativeJob& job) const {
  TALLY_CHECK(job.shards == options.cores, "a job has one shard for each data core");
  TALLY_CHECK(!shares_slots(job.discipline) ||
                  (job.shared_slots == options.shared_entries * options.cores && job.shared_slots != 0 &&
                   job.elements <= options.shared_elements && job.server != ServerKind::kNone),
              "a job that shares slots is served, and fits the box's shared region");
  TALLY_CHECK(job.servers <= kMaxServers && (job.servers != 0) == (job.server == ServerKind::kExternal),
              "a job has external servers, or it says that it has none");
  for (std::uint32_t s = 0; s < job.servers; ++s)
    TALLY_CHECK(raw(job.server_ranks[s].binding.port) < ports.size(), "a server is behind a port of the box");
}

Result<std::unique_ptr<DataPlane>> DataPlane::create(const DataPlaneOptions& options, dpdk::Pools pools,
                                                     std::vector<BoxPort> ports,
                                                     const kernels::Kernels& kernels) {
  const auto invalid = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  if (options.cores < 1 || options.cores > kMaxShards)
    return invalid("the data plane has " + std::to_string(options.cores) + " cores; it may have 1 to " +
                   std::to_string(kMaxShards));
  if (options.hand_over < 2 || !std::has_single_bit(options.hand_over))
    return invalid("hand_over is " + std::to_string(options.hand_over) +
                   "; it must be a power of two, 2 or more");
  if (pools.frames.empty() || pools.heads.size() != options.cores)
    return invalid("the data plane needs a mempool of frames, and one of heads for each core");
  const std::uint64_t shared = jobs::shared_lines(options.shared_entries, options.shared_elements);
  if (options.shared_elements > kMaxElements || options.shared_elements % kElementGranule != 0 ||
      shared > options.slot_lines)
    return invalid(std::to_string(options.shared_entries) + " shared slots of " +
                   std::to_string(options.shared_elements) + " elements do not fit the slot memory");
  // Whatever a shared slot holds may have to leave in the frame that takes its place.
  const std::size_t datagram = kHeaderBytes + 4 * std::size_t{options.shared_elements};
  if (options.shared_entries != 0 && kMaxEncapsulation + datagram > dpdk::room_of(widest(pools)))
    return invalid("shared slots of " + std::to_string(options.shared_elements) +
                   " elements are larger than the packets of every port; lower dataplane.shared.elements or "
                   "raise an mtu");
  if (ports.size() > l2::MacTable::kPorts)
    return invalid("the data plane has " + std::to_string(ports.size()) + " ports; it may have " +
                   std::to_string(l2::MacTable::kPorts));
  for (const BoxPort& p : ports)
    if (p.port.traits().receive_queues == 0 || p.port.traits().transmit_queues == 0)
      return invalid("port " + p.port.name() + " has no queue in one direction");
  auto state = std::make_unique<State>(options, std::move(pools), std::move(ports));
  if (!state->make_memory())
    return fail(ErrorCode::kSystem,
                "slot memory and rings do not fit into dataplane.memory beside the pools: " +
                    memory_sum(options) + "; raise dataplane.memory or lower dataplane.slots");
  state->make_cores(kernels);
  return std::unique_ptr<DataPlane>(new DataPlane(std::move(state)));
}

DataPlane::DataPlane(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
DataPlane::~DataPlane() { stop(); }

Result<void> DataPlane::start() {
  state_->stop.store(false, std::memory_order_release);
  for (std::size_t c = 0; c < cores(); ++c) {
    const unsigned lcore = dpdk::Eal::lcore(c);
    DataCore& core = *state_->cores[c];
    core.returned.store(false, std::memory_order_release);
    dpdk::handing_over(&core);
    const int error =
        rte_lcore_is_enabled(lcore) != 0 ? rte_eal_remote_launch(launch, &core, lcore) : -ENODEV;
    if (error == 0) continue;
    core.returned.store(true, std::memory_order_release);
    stop();
    return fail(ErrorCode::kSystem,
                "data core " + std::to_string(c) + " does not start: lcore " + std::to_string(lcore) +
                    (error == -ENODEV ? " does not exist; EAL was started with fewer cores"
                                      : " is busy with something else"));
  }
  return {};
}

void DataPlane::stop() noexcept {
  state_->stop.store(true, std::memory_order_release);
  for (std::size_t c = 0; c < cores(); ++c) {
    if (state_->cores[c]->returned.load(std::memory_order_acquire)) continue;
    rte_eal_wait_lcore(dpdk::Eal::lcore(c));
    dpdk::taking_over(state_->cores[c].get());
    static_cast<void>(state_->cores[c]->returned.load(std::memory_order_acquire));
  }
  state_->empty_all();
}

std::size_t DataPlane::turn(std::size_t core, TimeNs now) noexcept {
  return state_->cores[core]->turn(now, rte_rdtsc());
}

TimeNs DataPlane::next_due() const noexcept {
  TimeNs due = kNever;
  for (const auto& core : state_->cores) due = std::min(due, core->next_due());
  return due;
}

void DataPlane::publish(jobs::Publication publication) {
  state_->check(*publication.table);
  state_->chain->publish(std::move(publication));
}
std::uint64_t DataPlane::adopted() const noexcept { return state_->chain->adopted(); }

void DataPlane::impair(PortIndex port, const impair::PortImpairment& faults) {
  const BoxPort& of = state_->ports[raw(port)];
  TALLY_CHECK(
      most_kept(faults.in) <= most_kept(of.impair.in) && most_kept(faults.out) <= most_kept(of.impair.out),
      "there are mbufs for what faults keep");
  const dpdk::PortTraits& t = of.port.traits();
  std::vector<dpdk::PortWays> ways;
  for (std::size_t c = 0; c < state_->cores.size(); ++c) {
    CoreStatistics& statistics = state_->cores[c]->statistics;
    PortTraffic& traffic = state_->cores[c]->traffic[raw(port)];
    dpdk::PortWays& own = ways.emplace_back();
    own.port = port;
    for (std::size_t q = c; q < t.receive_queues; q += state_->cores.size())
      own.in.push_back(dpdk::impaired_way({faults.in, stream_of(c, q, raw(port), false)}, t.frames,
                                          statistics, traffic.impaired_in, statistics.impaired_in));
    own.out = dpdk::impaired_way({faults.out, stream_of(c, c, raw(port), true)}, t.frames, statistics,
                                 traffic.impaired_out, statistics.impaired_out);
  }
  state_->chain->exchange(std::move(ways));
}

// One of each core in turn.
rte_mbuf* DataPlane::State::next_of(ThreadRing CoreRings::*ring) noexcept {
  for (std::size_t tried = 0; tried < cores.size(); ++tried) {
    rte_mbuf* m = nullptr;
    const bool any = !dpdk::receive((rings[next_punts].*ring).get(), {&m, 1}).empty();
    next_punts = (next_punts + 1) % cores.size();
    if (any) return m;
  }
  return nullptr;
}

std::optional<Punt> DataPlane::next_punt(std::span<std::byte> out) noexcept {
  while (true) {
    // Members first; but one in four is a stranger, however much members say.
    auto first = &CoreRings::member_punts;
    auto then = &CoreRings::punts;
    if (++state_->punts_taken % 4 == 0) std::swap(first, then);
    rte_mbuf* m = state_->next_of(first);
    if (m == nullptr) m = state_->next_of(then);
    if (m == nullptr) return std::nullopt;
    const pipeline::OpenedFrame opened = pipeline::open_frame(frame_of(m), state_->options.box);
    const Punt punt{.bytes = opened.payload_bytes, .source = opened.source};
    const bool whole = opened.kind == pipeline::Kind::kNative && punt.bytes <= out.size();
    if (whole) std::memcpy(out.data(), opened.payload, punt.bytes);
    dpdk::drop(m);
    if (whole) return punt;
  }
}

// Before: control owns `m`. After: a core that sends for the port, or the mempool.
bool DataPlane::State::inject(PortIndex port, rte_mbuf* m) noexcept {
  m->port = raw(port);
  const std::size_t senders =
      std::min<std::size_t>(cores.size(), ports[raw(port)].port.traits().transmit_queues);
  return dpdk::send(rings[raw(port) % senders].injected.get(), m);
}

void DataPlane::announce(PortIndex index) noexcept {
  for (const auto write : {l2::announce_ipv4, l2::announce_ipv6}) {
    rte_mbuf* const m = dpdk::allocate(port(index).traits().frames, state_->mbufs);
    if (m == nullptr) return;
    const std::uint32_t bytes = write({dpdk::data_of(m), l2::kAnnouncementBytes}, state_->options.box);
    if (bytes == 0) {
      dpdk::drop(m);
      continue;
    }
    m->data_len = static_cast<std::uint16_t>(bytes);
    m->pkt_len = bytes;
    static_cast<void>(state_->inject(index, m));
  }
}

bool DataPlane::inject(const jobs::Binding& to, std::span<const std::byte> datagram) noexcept {
  if (raw(to.port) >= ports()) return false;
  const dpdk::PortTraits& out = port(to.port).traits();
  rte_mbuf* const m = make_frame(to, state_->options.box, kBasePort, datagram, out.frames, state_->mbufs);
  if (m == nullptr) return false;
  return state_->inject(to.port, m);
}

std::optional<pipeline::Event> DataPlane::next_event() noexcept {
  pipeline::Event event;
  for (const CoreRings& r : state_->rings) {
    if (rte_ring_dequeue_elem(r.events.get(), &event, sizeof event) == 0) return event;
  }
  return std::nullopt;
}

Result<void> DataPlane::begin_trace(const TraceFilter& filter) {
  State& s = *state_;
  if (!s.taps.empty() && !s.taps_are_back())
    return fail(ErrorCode::kInvalidArgument, "another trace is under way, or ends just now");
  s.taps.clear();
  for (std::size_t c = 0; c < cores(); ++c) {
    auto tap = TraceTap::make(filter, static_cast<std::uint8_t>(c), dpdk::Eal::node(c));
    if (tap == nullptr) {
      s.taps.clear();
      return fail(ErrorCode::kInvalidArgument, "no memory is left for a trace: raise dataplane.memory");
    }
    s.taps.push_back(std::move(tap));
  }
  s.taps_taken.clear();
  for (std::size_t c = 0; c < cores(); ++c) s.cores[c]->tap.store(s.taps[c].get(), std::memory_order_release);
  return {};
}

void DataPlane::end_trace() noexcept {
  State& s = *state_;
  if (s.taps.empty() || !s.taps_taken.empty()) return;
  for (const auto& core : s.cores) {
    core->tap.exchange(nullptr, std::memory_order_seq_cst);
    s.taps_taken.push_back(core->turned.load(std::memory_order_acquire));
  }
}

// A turn that was under way may have looked already, the one after it has not.
bool DataPlane::State::taps_are_back() const noexcept {
  if (taps_taken.empty()) return false;
  for (std::size_t c = 0; c < cores.size(); ++c) {
    const bool turned = cores[c]->turned.load(std::memory_order_acquire) >= taps_taken[c] + 2;
    if (!turned && !cores[c]->returned.load(std::memory_order_acquire)) return false;
  }
  return true;
}

bool DataPlane::next_traced(TracedFrame& out) noexcept {
  State& s = *state_;
  for (std::size_t tried = 0; tried < s.taps.size(); ++tried) {
    const bool any = s.taps[s.next_tap % s.taps.size()]->next(out);
    ++s.next_tap;
    if (any) return true;
  }
  return false;
}

std::uint64_t DataPlane::trace_lost() const noexcept {
  std::uint64_t lost = 0;
  for (const auto& tap : state_->taps) lost += tap->lost();
  return lost;
}

std::size_t DataPlane::cores() const noexcept { return state_->cores.size(); }
std::size_t DataPlane::ports() const noexcept { return state_->ports.size(); }
const dpdk::Port& DataPlane::port(PortIndex index) const noexcept { return state_->ports[raw(index)].port; }
dpdk::PortLink DataPlane::follow(PortIndex index, TimeNs now) {
  return state_->ports[raw(index)].port.follow(now);
}
dpdk::PortStatistics DataPlane::port_statistics(PortIndex index) const noexcept {
  dpdk::PortStatistics all = port(index).statistics();
  all.rx_packets = all.rx_bytes = all.tx_packets = all.tx_bytes = 0;
  for (const auto& core : state_->cores) {
    const PortTraffic& traffic = core->traffic[raw(index)];
    all.rx_packets += traffic.frames_in;
    all.rx_bytes += traffic.bytes_in;
    all.tx_packets += traffic.frames_out;
    all.tx_bytes += traffic.bytes_out;
  }
  return all;
}
DataPlane::ImpairedPort DataPlane::impaired(PortIndex index) const noexcept {
  ImpairedPort all;
  for (const auto& core : state_->cores) {
    all.in += core->traffic[raw(index)].impaired_in;
    all.out += core->traffic[raw(index)].impaired_out;
  }
  return all;
}
const DataCore& DataPlane::core(std::size_t index) const noexcept { return *state_->cores[index]; }
std::size_t DataPlane::hosts() const noexcept {
  TimeNs now = 0;
  for (const auto& core : state_->cores) now = std::max<TimeNs>(now, core->statistics.last_turn);
  return state_->hosts.size(now / kSecond);
}
std::uint32_t DataPlane::mbufs_in_use() const noexcept {
  std::uint32_t n = 0;
  for (const dpdk::Mempool& pool : state_->pools.all) n += rte_mempool_in_use_count(pool.get());
  return n;
}

}  // namespace tally::io
