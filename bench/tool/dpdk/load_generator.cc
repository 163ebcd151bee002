#include "load_generator.h"

#include <algorithm>
#include <utility>

#include "process_cpu.h"

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

}  // namespace tally::bench
