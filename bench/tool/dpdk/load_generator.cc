#include "load_generator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "load_port.h"
#include "pipeline/reply.h"

#include <rte_mbuf.h>
#include <rte_mempool.h>

namespace tally::bench {
namespace {

constexpr TimeNs kControlPeriod = kMillisecond;
constexpr TimeNs kLongestTurn = kMillisecond;  // a longer one was interrupted
constexpr TimeNs kPatience = 10 * kSecond;     // for the results of what was sent last
constexpr int kTurnsPerLook = 16;              // at the clock, for the end of a run

double share_of(std::uint64_t part, std::uint64_t whole) noexcept {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

LatencyFigures figures_of(const LatencyHistogram& h) {
  return {h.count(), h.percentile(0.5), h.percentile(0.99), h.percentile(0.999), h.max()};
}

}  // namespace

LoadGenerator::LoadGenerator(GeneratorOptions options, std::vector<std::unique_ptr<LoadPort>> ports,
                             const std::atomic<bool>& interrupted)
    : options_(std::move(options)),
      ports_(std::move(ports)),
      interrupted_(interrupted),
      kernels_(kernels::best_kernels()),
      lanes_(ports_.size()) {
  for (std::size_t p = 0; p < ports_.size(); ++p) lanes_[p].queues.resize(ports_[p]->transmit_queues());
  for (const dpdk_transport::WorkerAddress& address : options_.addresses)
    filters_.push_back({.ours = address, .vlan = options_.format.vlan});
}

LoadGenerator::~LoadGenerator() {
  for (const Lane& lane : lanes_)
    for (const Waiting& waiting : lane.queues)
      for (std::size_t i = 0; i < waiting.count; ++i) dpdk::drop(waiting.frames[i]);
}

Result<void> LoadGenerator::trouble() const {
  if (interrupted_) return fail(ErrorCode::kClosed, "interrupted");
  if (ledger_ && ledger_->wrong() != nullptr)
    return fail(ErrorCode::kCorrupt, std::string("WRONG RESULT, no figure: ") + ledger_->wrong());
  for (std::size_t r = 0; r < members_.size(); ++r) {
    if (members_[r].state() == LoadMember::State::kFailed)
      return fail(ErrorCode::kAborted, members_[r].why(), "rank " + std::to_string(r));
  }
  for (const auto& port : ports_) {
    if (!port->up())
      return fail(ErrorCode::kUnreachable, "the link went down: " + port->why_down(), port->name());
  }
  return {};
}

LoadGenerator::Snapshot LoadGenerator::snapshot() noexcept {
  Snapshot s{
      .counts = ledger_->counts(), .frames = frames_, .bursts = bursts_, .full = full_, .at = clock_.now()};
  for (const Lane& lane : lanes_) s.skipped += lane.pacer.skipped();
  if (options_.box_pid) s.box_cpu_s = process_cpu_seconds(*options_.box_pid);
  return s;
}

Result<LoadFigures> LoadGenerator::run(double rate, double warm_up_s, double seconds) {
  const TimeNs start = clock_.now();
  const std::uint64_t corrupt = ledger_->counts().corrupt;
  for (std::size_t p = 0; p < lanes_.size(); ++p) {
    const std::size_t ranks = (memberships_.size() - p + lanes_.size() - 1) / lanes_.size();
    lanes_[p].pacer.start(rate * static_cast<double>(ranks) / static_cast<double>(memberships_.size()),
                          start);
  }
  sending_ = true;
  if (auto bad = turn_until(start + static_cast<TimeNs>(warm_up_s * 1e9)); !bad)
    return tl::unexpected(bad.error());
  const Snapshot before = snapshot();
  ledger_->latency().clear();
  longest_gap_ = away_ = 0;
  if (auto bad = turn_until(before.at + static_cast<TimeNs>(seconds * 1e9)); !bad)
    return tl::unexpected(bad.error());
  const Snapshot after = snapshot();
  LoadFigures f{.asked = rate,
                .seconds = static_cast<double>(after.at - before.at) / 1e9,
                .sent = after.counts.sent - before.counts.sent,
                .received = after.frames - before.frames,
                .chunks = after.counts.chunks - before.counts.chunks,
                .skipped = after.skipped - before.skipped,
                .full = share_of(after.full - before.full, after.bursts - before.bursts),
                .longest_gap = longest_gap_,
                .away = away_,
                .latency = figures_of(ledger_->latency())};
  if (options_.box_pid) f.box_cpu_s = after.box_cpu_s - before.box_cpu_s;
  if (auto bad = finish(); !bad) return tl::unexpected(bad.error());
  const LedgerCounts& end = ledger_->counts();
  f.late = end.late - before.counts.late;
  f.resent = end.resent - before.counts.resent;
  f.corrupt = end.corrupt - corrupt;
  f.compared = end.compared - before.counts.compared;
  return f;
}

Result<void> LoadGenerator::turn_until(TimeNs end) {
  do {
    for (int i = 0; i < kTurnsPerLook; ++i) turn();
    if (auto bad = trouble(); !bad) return bad;
  } while (clock_.now() < end);
  return {};
}

Result<void> LoadGenerator::finish() {
  ledger_->wind_up();
  // What is begun is sent without a pause.
  for (Lane& lane : lanes_) lane.pacer.start(0, 0);
  const TimeNs give_up = clock_.now() + kPatience;
  while (!ledger_->done()) {
    turn();
    if (auto bad = trouble(); !bad) return bad;
    if (clock_.now() > give_up)
      return fail(ErrorCode::kTimeout,
                  "contributions were sent again and again, and have no result after 10 s");
  }
  sending_ = false;
  ledger_->go_on();
  return {};
}

void LoadGenerator::turn() {
  const TimeNs now = clock_.now();
  longest_gap_ = std::max(longest_gap_, now - last_turn_);
  if (now - last_turn_ > kLongestTurn) away_ += now - last_turn_;
  last_turn_ = now;
  if (now >= control_due_) control(now);
  bool emptied = true;
  for (std::size_t p = 0; p < ports_.size(); ++p) {
    if (!ports_[p]->up()) continue;
    emptied = receive(p) && emptied;
    if (!sending_) continue;
    fill(p, now);
    offer_frames(p);
  }
  // What came while this thread was kept from its CPU is not late.
  if (!emptied || now < scan_due_ || !sending_) return;
  scan_due_ = now + kControlPeriod;
  ledger_->scan(now);
}

void LoadGenerator::control(TimeNs now) {
  control_due_ = now + kControlPeriod;
  for (const auto& port : ports_) port->maintain(now);
  for (std::size_t r = 0; r < members_.size(); ++r) speak(r, now);
}

// The generator's ranks become members, and leave.

namespace {

struct Painter {
  const LoadImages& images;
  std::size_t offset;  // of the values in the buffer
};

void paint(rte_mempool*, void* painter, void* object, unsigned index) {
  const auto& how = *static_cast<const Painter*>(painter);
  auto* const m = static_cast<rte_mbuf*>(object);
  const auto image = static_cast<ImageIndex>(index % LoadImages::kImages);
  const auto values = how.images.values(image);
  std::memcpy(static_cast<std::byte*>(m->buf_addr) + how.offset, values.data(), values.size());
  m->hash.usr = image;
}

void pause_a_little() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

}  // namespace

Result<void> LoadGenerator::join() {
  const TimeNs give_up = clock_.now() + options_.join_timeout;
  if (auto up = wait_for_links(give_up); !up) return up;
  if (options_.echo_window != 0) {
    make_up_memberships();
  } else if (auto joined = join_job(give_up); !joined) {
    return joined;
  }
  return start_ledger();
}

Result<void> LoadGenerator::wait_for_links(TimeNs give_up) {
  for (const auto& port : ports_) {
    for (port->maintain(clock_.now()); !port->up(); port->maintain(clock_.now())) {
      if (interrupted_) return fail(ErrorCode::kClosed, "interrupted");
      if (clock_.now() > give_up)
        return fail(ErrorCode::kUnreachable, "no link: " + port->why_down(), "--port " + port->name());
      pause_a_little();
    }
  }
  return {};
}

Result<void> LoadGenerator::join_job(TimeNs give_up) {
  for (std::uint16_t r = 0; r < options_.addresses.size(); ++r) {
    engine::EngineOptions engine;
    engine.job = options_.job;
    engine.token = options_.token;
    engine.rank = Rank{r};
    engine.world = static_cast<std::uint16_t>(options_.addresses.size());
    engine.elements = options_.elements;
    engine.seed = mix64(options_.seed + r);
    engine.instance = mix64(engine.seed) | 1;
    engine.unreachable_after = options_.join_timeout;
    members_.emplace_back(std::move(engine), kernels_);
  }
  const auto running = [](const LoadMember& m) { return m.state() == LoadMember::State::kRunning; };
  while (!std::ranges::all_of(members_, running)) {
    if (auto bad = trouble(); !bad) return bad;
    if (clock_.now() > give_up)
      return fail(ErrorCode::kTimeout, members_.front().why(), "job " + options_.job);
    turn();
    pause_a_little();
  }
  for (const LoadMember& member : members_) memberships_.push_back(member.membership());
  // Only now: ranks that have joined can leave, and need not be waited for by the next run.
  if (options_.lower || membership().elements >= options_.elements) return {};
  return fail(ErrorCode::kInvalidArgument,
              "job " + options_.job + " has at most " + std::to_string(membership().elements) +
                  " elements per packet, not " + std::to_string(options_.elements) +
                  ": ask for those, or raise `elements:` of the job and `mtu:` of the box's ports",
              "--elements");
}

void LoadGenerator::make_up_memberships() {
  engine::Membership m;
  m.job = JobId{1};
  m.epoch = Epoch{1};
  m.elements = options_.elements;
  m.window = m.largest_window = m.lookahead = options_.echo_window;
  m.world = static_cast<std::uint32_t>(options_.addresses.size());
  m.box_mac = {2, 0, 0, 0, 0, 1};
  memberships_.assign(m.world, m);
}

Result<void> LoadGenerator::start_ledger() {
  const engine::Membership& first = membership();
  images_.emplace(static_cast<std::uint16_t>(first.elements), options_.format.dtype, kernels_);
  ledger_.emplace(first, static_cast<std::uint16_t>(ports_.size()), *images_, kernels_, options_.deadline);
  std::uint32_t mbufs = dpdk::kPoolCache * 3 / 2;
  for (const auto& port : ports_)
    mbufs +=
        port->transmit_descriptors() + static_cast<std::uint32_t>(kBurstFrames) * port->transmit_queues();
  contributions_.reset(rte_pktmbuf_pool_create(
      "load-values", mbufs, dpdk::kPoolCache, 0,
      static_cast<std::uint16_t>(dpdk::kHeadRoom + load_frame_bytes(options_.mtu)), SOCKET_ID_ANY));
  if (contributions_ == nullptr)
    return fail(ErrorCode::kSystem,
                "no memory for " + std::to_string(mbufs) + " packets: use a larger --memory");
  const std::size_t head = encapsulation_of(options_.addresses.front(), options_.format.vlan);
  Painter painter{*images_, dpdk::kHeadRoom + head + kHeaderBytes};
  rte_mempool_obj_iter(contributions_.get(), paint, &painter);
  for (std::uint16_t r = 0; r < memberships_.size(); ++r) {
    writers_.emplace_back(options_.addresses[r], options_.format.vlan, memberships_[r], r, *images_,
                          kernels_);
    if (first.results != ResultsMode::kMulticast) continue;
    filters_[r].group = first.group;
    filters_[r].group_mac = jobs::multicast_mac(first.group);
    filters_[r].group_port = first.group_port;
  }
  return {};
}

void LoadGenerator::leave() {
  for (LoadMember& member : members_) member.leave(clock_.now());
  const auto waits = [](const LoadMember& m) { return m.state() == LoadMember::State::kLeaving; };
  const TimeNs give_up = clock_.now() + kSecond;
  while (std::ranges::any_of(members_, waits) && clock_.now() < give_up) {
    turn();
    pause_a_little();
  }
}

void LoadGenerator::speak(std::size_t rank, TimeNs now) {
  LoadPort& port = *ports_[rank % ports_.size()];
  if (!port.up()) return;
  const std::size_t bytes =
      members_[rank].transmit(datagram_, ledger_ ? ledger_->next_number() : Chunk{}, now);
  if (bytes == 0) return;
  rte_mbuf* m = dpdk::allocate(port.pool(), mbufs_);
  if (m == nullptr) return;
  const dpdk_transport::WorkerAddress& from = options_.addresses[rank];
  const std::size_t head = encapsulation_of(from, options_.format.vlan);
  m->data_len = static_cast<std::uint16_t>(head + bytes);
  m->pkt_len = m->data_len;
  std::memcpy(dpdk::data_of(m) + head, datagram_.data(), bytes);
  const bool joined = members_[rank].state() != LoadMember::State::kJoining;
  encapsulate(from, options_.format.vlan, joined ? members_[rank].membership().box_mac : kBroadcastMac,
              {dpdk::data_of(m), head}, std::span{datagram_}.first(bytes));
  dpdk::send(port.id(), 0, {&m, 1}, mbufs_);
}

// The generator's frames: what arrives, and what is to be sent.

bool LoadGenerator::receive(std::size_t port) {
  const LoadPort& p = *ports_[port];
  bool emptied = true;
  for (std::uint16_t queue = 0; queue < p.queues(); ++queue) {
    std::array<rte_mbuf*, kBurstFrames> burst;
    const std::span<rte_mbuf*> frames = tally::dpdk::receive(p.id(), queue, burst);
    if (frames.empty()) continue;
    emptied = emptied && frames.size() < kBurstFrames;
    const TimeNs now = clock_.now();
    for (rte_mbuf* m : frames) {
      if (m->nb_segs == 1) {
        take({dpdk::data_of(m), m->data_len}, port, now);
        continue;
      }
      linear_.resize(m->pkt_len);
      take({static_cast<const std::byte*>(rte_pktmbuf_read(m, 0, m->pkt_len, linear_.data())), m->pkt_len},
           port, now);
    }
    rte_pktmbuf_free_bulk(frames.data(), static_cast<unsigned>(frames.size()));
  }
  return emptied;
}

// Frames for nobody here, broken ones and other protocols are passed over, as a worker does.
void LoadGenerator::take(std::span<const std::byte> frame, std::size_t port, TimeNs now) {
  if (frame.size() < sizeof(EthernetHeader)) return;
  const bool multicast = (std::to_integer<unsigned>(frame[0]) & 1U) != 0;
  const std::size_t rank = multicast ? port : std::to_integer<std::size_t>(frame[5]);
  if (rank >= options_.addresses.size() || rank % ports_.size() != port) return;
  if (options_.echo_window != 0) return take_echo(frame, rank, now);
  const auto payload = dpdk_transport::open_worker_frame(frame, filters_[rank]);
  engine::Datagram datagram{};
  if (payload.empty() || engine::open_datagram(payload, kernels_, datagram)) return;
  if (datagram.header.type != PacketType::kResult) return members_[rank].receive(datagram, now);
  if (!ledger_) return;
  ++frames_;
  ledger_->receive(datagram, port, static_cast<std::uint16_t>(rank), multicast, now);
}

// The frame as it was sent, but for its Ethernet addresses.
void LoadGenerator::take_echo(std::span<const std::byte> frame, std::size_t rank, TimeNs now) {
  const ContributionWriter& writer = writers_[rank];
  const Mac& own = options_.addresses[rank].mac;
  if (frame.size() != writer.frame_bytes() || std::memcmp(frame.data(), own.data(), own.size()) != 0) return;
  const Header header = pipeline::header_at(frame.data() + writer.encapsulation());
  if (header.type != PacketType::kContribute) return;
  ++frames_;
  ledger_->receive_echo(header.chunk_id(), static_cast<std::uint16_t>(rank), now);
}

// Repetitions first, and whatever the rate: the window waits for them. The mbuf comes before the
// contribution, which the ledger names only once.
void LoadGenerator::fill(std::size_t port, TimeNs now) {
  Lane& lane = lanes_[port];
  const auto room = [&lane] {
    return std::ranges::all_of(lane.queues, [](const Waiting& w) { return w.count < kBurstFrames; });
  };
  std::uint64_t due = std::min<std::uint64_t>(lane.pacer.due(now), kBurstFrames);
  while (room()) {
    rte_mbuf* const m = rte_pktmbuf_alloc(contributions_.get());
    if (m == nullptr) return;
    if (const auto again = ledger_->next_again(port)) {
      add_frame(port, m, *again, true);
      continue;
    }
    const auto what = due > 0 ? ledger_->next(port) : std::nullopt;
    if (!what) {
      rte_pktmbuf_free(m);
      return;
    }
    add_frame(port, m, *what, false);
    lane.pacer.sent(1);
    --due;
  }
}

void LoadGenerator::add_frame(std::size_t port, rte_mbuf* m, const Contributed& what, bool again) {
  ContributionWriter& writer = writers_[what.rank];
  m->data_len = static_cast<std::uint16_t>(writer.frame_bytes());
  m->pkt_len = m->data_len;
  const std::span<std::byte> frame{dpdk::data_of(m), writer.frame_bytes()};
  if (again) {
    const ImageIndex image = ledger_->image_of(what);
    const auto values = images_->values(image);
    std::memcpy(frame.data() + writer.encapsulation() + kHeaderBytes, values.data(), values.size());
    m->hash.usr = image;
  }
  const Chunk number = ledger_->number_of(what.chunk);
  writer.write(frame, number, static_cast<ImageIndex>(m->hash.usr), again);
  Lane& lane = lanes_[port];
  Waiting& waiting = lane.queues[membership().shard_of(number) % lane.queues.size()];
  waiting.frames[waiting.count] = m;
  waiting.what[waiting.count] = what;
  waiting.again[waiting.count++] = again;
}

void LoadGenerator::offer_frames(std::size_t port) {
  for (std::uint16_t queue = 0; Waiting & w : lanes_[port].queues) {
    const std::uint16_t id = queue++;
    if (w.count == 0) continue;
    std::array<ImageIndex, kBurstFrames> images;  // a frame that was taken is not ours to look at
    for (std::size_t i = 0; i < w.count; ++i) images[i] = static_cast<ImageIndex>(w.frames[i]->hash.usr);
    // Before the burst: a port of the kernel may bring the frames to the box, and its answer back, within it.
    const TimeNs now = clock_.now();
    const std::size_t taken = dpdk::offer(ports_[port]->id(), id, {w.frames.data(), w.count});
    ++bursts_;
    if (taken < w.count) ++full_;
    for (std::size_t i = 0; i < taken; ++i) {
      if (w.again[i]) {
        ledger_->sent_again();
      } else {
        ledger_->sent(w.what[i], images[i], now);
      }
    }
    const auto from = static_cast<std::ptrdiff_t>(taken), to = static_cast<std::ptrdiff_t>(w.count);
    std::copy(w.frames.begin() + from, w.frames.begin() + to, w.frames.begin());
    std::copy(w.what.begin() + from, w.what.begin() + to, w.what.begin());
    std::copy(w.again.begin() + from, w.again.begin() + to, w.again.begin());
    w.count -= taken;
  }
}

}  // namespace tally::bench
