#include "ps_run.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "ps_report.h"
#include "steady_now.h"

namespace tally {

PsRun::PsRun(std::unique_ptr<Transport> transport, std::unique_ptr<PsEngine> engine,
             const PsSettings& settings)
    : transport_(std::move(transport)),
      engine_(std::move(engine)),
      settings_(settings),
      datagram_bytes_(engine_->max_datagram_bytes()),
      epochs_followed_(engine_->jobs(), 0) {}

Result<void> PsRun::run() {
  if (auto attached = transport_->attach(); !attached) return attached;
  std::fprintf(stderr, "tally-ps: %s\n", transport_->describe().c_str());
  read_clock();
  if (statistics_interval() != 0) statistics_due_ = now_ + statistics_interval();
  while (!stop_.load(std::memory_order_relaxed)) turn();
  tell_statistics();
  return {};
}

void PsRun::stop() noexcept {
  stop_ = true;
  transport_->wake();
}

void PsRun::turn() {
  read_clock();
  bool busy = transport_->receive(
                  [this](std::span<const std::byte> datagram) { engine_->receive(datagram, now_); }) != 0;
  follow_memberships();
  busy |= transmit();
  tell_events();
  if (statistics_due_ <= now_) {
    tell_statistics();
    statistics_due_ = now_ + statistics_interval();
  }
  if (busy) return;
  if (settings_.poll) return transport_->wait(now_, now_);
  const TimeNs next = path_full_ ? now_ + kPathRetry : engine_->deadline();
  transport_->wait(now_, std::min(next, statistics_due_));
}

void PsRun::read_clock() noexcept { now_ = std::max(now_, steady_now()); }

bool PsRun::transmit() {
  path_full_ = false;
  std::size_t sent = 0;
  while (sent < kBurst && engine_->deadline() <= now_) {
    const std::span<Outbound> room = transport_->lend(kBurst - sent, datagram_bytes_);
    if (room.empty()) {
      path_full_ = true;
      break;
    }
    std::size_t filled = 0;
    for (; filled < room.size(); ++filled) {
      Outbound& out = room[filled];
      out.bytes = engine_->transmit(out.room, now_, out.destination_port);
      if (out.bytes == 0) break;
    }
    transport_->send(filled);
    sent += filled;
    if (filled < room.size()) break;
  }
  return sent != 0;
}

// The transport must know the box before the first sum leaves. It needs its MAC only: a server is no member,
// has no window, and gets no results by multicast.
void PsRun::follow_memberships() {
  for (std::size_t job = 0; job < engine_->jobs(); ++job) {
    const std::uint64_t epochs = engine_->statistics(job).epochs;
    if (epochs == epochs_followed_[job]) continue;
    epochs_followed_[job] = epochs;
    if (const auto& membership = engine_->member(job).membership()) {
      Membership box = *membership;
      box.results = ResultsMode::kUnicast;
      box.window = 0;
      transport_->joined(box);
    }
  }
}

void PsRun::tell_events() {
  while (const auto event = engine_->next_event())
    std::fprintf(stderr, "tally-ps: %s\n", ps_event_line(*engine_, *event).c_str());
}

void PsRun::tell_statistics() {
  if (const std::string trouble = transport_->trouble(); trouble != trouble_) {
    trouble_ = trouble;
    if (!trouble.empty()) std::fprintf(stderr, "tally-ps: path: %s\n", trouble.c_str());
  }
  const std::string line = settings_.json ? ps_statistics_json(*engine_) : ps_statistics_line(*engine_);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

TimeNs PsRun::statistics_interval() const noexcept {
  return static_cast<TimeNs>(settings_.statistics.count()) * kSecond;
}

}  // namespace tally
