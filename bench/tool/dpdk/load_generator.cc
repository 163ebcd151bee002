#include "load_generator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "process_cpu.h"

#include <rte_mbuf.h>
#include <rte_mempool.h>

namespace tally::bench {
namespace {

constexpr TimeNs kControlPeriod = kMillisecond;
constexpr TimeNs kPatience = 10 * kSecond;  // for the results of what was sent last
constexpr int kTurnsPerLook = 16;           // at the clock, for the end of a run

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

double share_of(std::uint64_t part, std::uint64_t whole) noexcept {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void pause_a_little() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

LatencyFigures figures_of(const LatencyHistogram& h) {
  return {h.count(), h.percentile(0.5), h.percentile(0.99), h.percentile(0.999), h.max()};
}

}  // namespace

LoadGenerator::LoadGenerator(GeneratorOptions options, std::vector<std::unique_ptr<LoadPort>> ports,
                             const std::atomic<bool>& interrupted)
    : options_(std::move(options)),
      ports_(std::move(ports)),
      interrupted_(interrupted),
      kernels_(best_kernels()),
      lanes_(ports_.size()) {
  for (std::size_t p = 0; p < ports_.size(); ++p) lanes_[p].queues.resize(ports_[p]->transmit_queues());
  for (const WorkerAddress& address : options_.addresses) filters_.push_back({.ours = address});
}

LoadGenerator::~LoadGenerator() {
  for (const Lane& lane : lanes_)
    for (const Waiting& waiting : lane.queues)
      for (std::size_t i = 0; i < waiting.count; ++i) drop(waiting.frames[i]);
}

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
  const TimeNs now = clock_.now();
  for (std::uint16_t r = 0; r < options_.addresses.size(); ++r) {
    EngineOptions engine;
    engine.job = options_.job;
    engine.token = options_.token;
    engine.rank = Rank{r};
    engine.world = static_cast<std::uint16_t>(options_.addresses.size());
    engine.elements = options_.elements;
    engine.seed = mix64(options_.seed + r);
    engine.instance = mix64(engine.seed) | 1;
    engine.unreachable_after = options_.join_timeout;
    members_.emplace_back(std::move(engine), kernels_, now);
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
  return {};
}

void LoadGenerator::make_up_memberships() {
  Membership m;
  m.job = JobId{1};
  m.epoch = Epoch{1};
  m.elements = options_.elements;
  m.window = m.largest_window = options_.echo_window;
  m.world = static_cast<std::uint32_t>(options_.addresses.size());
  m.box_mac = {2, 0, 0, 0, 0, 1};
  memberships_.assign(m.world, m);
}

Result<void> LoadGenerator::start_ledger() {
  const Membership& first = membership();
  const auto elements = static_cast<std::uint16_t>(first.elements);
  images_.emplace(elements, kernels_);
  ledger_.emplace(first, static_cast<std::uint16_t>(ports_.size()), *images_, kernels_, options_.deadline);
  std::uint32_t mbufs = kPoolCache * 3 / 2;
  for (const auto& port : ports_)
    mbufs +=
        port->transmit_descriptors() + static_cast<std::uint32_t>(kBurstFrames) * port->transmit_queues();
  contributions_.reset(rte_pktmbuf_pool_create(
      "load-values", mbufs, kPoolCache, 0,
      static_cast<std::uint16_t>(kHeadRoom + load_frame_bytes(options_.mtu)), SOCKET_ID_ANY));
  if (contributions_ == nullptr)
    return fail(ErrorCode::kSystem,
                "no memory for " + std::to_string(mbufs) + " packets: use a larger --memory");
  const std::size_t head = encapsulation_of(options_.addresses.front());
  Painter painter{*images_, kHeadRoom + head + kHeaderBytes};
  rte_mempool_obj_iter(contributions_.get(), paint, &painter);
  for (std::uint16_t r = 0; r < memberships_.size(); ++r) {
    writers_.emplace_back(options_.addresses[r], memberships_[r], r, elements, kernels_);
    if (first.results != ResultsMode::kMulticast) continue;
    filters_[r].group = first.group;
    filters_[r].group_mac = multicast_mac(first.group);
    filters_[r].group_port = first.group_port;
  }
  return {};
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
  longest_gap_ = 0;
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
                .latency = figures_of(ledger_->latency())};
  if (options_.box_pid) f.box_cpu_s = after.box_cpu_s - before.box_cpu_s;
  if (auto bad = finish(); !bad) return tl::unexpected(bad.error());
  const LedgerCounts& end = ledger_->counts();
  f.late = end.late - before.counts.late;
  f.resent = end.resent - before.counts.resent;
  f.corrupt = end.corrupt - before.counts.corrupt;
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

void LoadGenerator::leave() {
  for (LoadMember& member : members_) member.leave(clock_.now());
  const auto waits = [](const LoadMember& m) { return m.state() == LoadMember::State::kLeaving; };
  const TimeNs give_up = clock_.now() + kSecond;
  while (std::ranges::any_of(members_, waits) && clock_.now() < give_up) {
    turn();
    pause_a_little();
  }
}

void LoadGenerator::turn() {
  const TimeNs now = clock_.now();
  longest_gap_ = std::max(longest_gap_, now - last_turn_);
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

void LoadGenerator::speak(std::size_t rank, TimeNs now) {
  LoadPort& port = *ports_[rank % ports_.size()];
  if (!port.up()) return;
  const std::size_t bytes =
      members_[rank].transmit(datagram_, ledger_ ? ledger_->next_number() : Chunk{}, now);
  if (bytes == 0) return;
  rte_mbuf* m = allocate(port.pool(), mbufs_);
  if (m == nullptr) return;
  const WorkerAddress& from = options_.addresses[rank];
  const std::size_t head = encapsulation_of(from);
  m->data_len = static_cast<std::uint16_t>(head + bytes);
  m->pkt_len = m->data_len;
  std::memcpy(data_of(m) + head, datagram_.data(), bytes);
  const bool joined = members_[rank].state() != LoadMember::State::kJoining;
  encapsulate(from, joined ? members_[rank].membership().box_mac : kBroadcastMac, kBasePort,
              {data_of(m), head}, std::span{datagram_}.first(bytes));
  send(port.id(), 0, {&m, 1}, mbufs_);
}

}  // namespace tally::bench
