// tally-ps: a parameter server in a process of its own.

#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/transport.h"
#include "kernels/kernels.h"
#include "perf/interrupt_watch.h"
#include "ps/path_boxes.h"
#include "ps/ps_command_line.h"
#include "ps/ps_engine.h"
#include "ps/ps_report.h"
#include "random/random.h"
#include "tally/mix64.h"
#include "tally/net.h"
#include "text/text.h"

namespace tally::ps {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// The transport speaks of the variables of a worker.
std::string option_of(const std::string& where) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kOptions{{{"TALLY_SWITCH", "--box"},
                                                                         {"TALLY_ADDRESS", "--address"},
                                                                         {"TALLY_MTU", "--mtu"},
                                                                         {"TALLY_TRANSPORT", "--transport"}}};
  for (const auto& [variable, option] : kOptions) {
    if (where == variable) return option;
  }
  return where;
}

int complain(Error error) {
  error.where = option_of(error.where);
  std::fprintf(stderr, "tally-ps: %s\n", error.text().c_str());
  if (error.code != ErrorCode::kInvalidArgument) return kFailed;
  std::fputs("Try 'tally-ps --help'.\n", stderr);
  return kUsage;
}

// The same each time that a server is started with these options: the box lets it take its own place again at
// once, without a new epoch, if it comes from where it was.
std::uint64_t identity_of(const PsSettings& settings) {
  std::uint64_t word = 1;
  const auto take = [&word](const std::string& text) {
    for (const char c : text) word = mix64(word * 257 + static_cast<unsigned char>(c));
    word = mix64(word);
  };
  take(settings.address);
  take(settings.transport);
  // Several servers of one machine differ in nothing else over udp.
  for (const PsJobOptions& job : settings.jobs) take(job.job + ":" + std::to_string(job.index));
  return word == 0 ? 1 : word;
}

Result<std::unique_ptr<PsEngine>> make_engine(const PsSettings& settings, const Transport& transport) {
  const std::uint16_t most = transport.most_elements();
  PsOptions options;
  options.jobs = settings.jobs;
  for (const std::string& box : settings.boxes) options.boxes.push_back(*text::ip_address(box));
  options.path_bytes = transport.most_bytes();
  options.elements = settings.elements == 0 ? most : std::min(settings.elements, most);
  options.instance = random::word();
  options.seed = random::word();
  options.memory = settings.memory;
  return PsEngine::create(options, kernels::best_kernels());
}

// The loop: one thread that owns engine and transport, and takes turns at receiving, sending, telling people
// and sleeping.
class PsRun {
 public:
  PsRun(std::unique_ptr<Transport> transport, std::unique_ptr<PsEngine> engine, const PsSettings& settings)
      : transport_(std::move(transport)),
        engine_(std::move(engine)),
        settings_(settings),
        first_(*text::ip_address(settings.boxes.front())),
        followed_(engine_->jobs(), 0) {}

  // Until stop(); then a last line of statistics. An error of the path ends it, too.
  Result<void> run() {
    if (auto attached = transport_->attach(); !attached) return attached;
    std::fprintf(stderr, "tally-ps: %s\n", transport_->describe().c_str());
    read_clock();
    if (statistics_interval() != 0) statistics_due_ = now_ + statistics_interval();
    while (!stop_.load(std::memory_order_relaxed)) turn();
    tell_statistics();
    return {};
  }

  // Any thread.
  void stop() noexcept {
    stop_ = true;
    transport_->wake();
  }

 private:
  // Datagrams sent in a turn: what one that was received brings with it is two at most.
  static constexpr std::size_t kBurst = 64;
  // A path that takes nothing is asked again so soon; it cannot wake us.
  static constexpr TimeNs kPathRetry = kMillisecond;

  void turn() {
    read_clock();
    bool busy = transport_->receive([this](std::span<const std::byte> datagram, std::size_t box) {
      engine_->receive(datagram, now_, boxes_.address(box));
    }) != 0;
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

  void read_clock() noexcept { now_ = std::max(now_, steady_now()); }

  bool transmit() {
    path_full_ = false;
    std::size_t sent = 0;
    while (sent < kBurst && engine_->deadline() <= now_) {
      const std::span<Outbound> room = transport_->lend(kBurst - sent, engine_->max_datagram_bytes());
      if (room.empty()) {
        path_full_ = true;
        break;
      }
      std::size_t filled = 0;
      for (; filled < room.size(); ++filled) {
        Outbound& out = room[filled];
        PsDestination to;
        out.bytes = engine_->transmit(out.room, now_, to);
        if (out.bytes == 0) break;
        out.destination_port = to.port;
        out.box = boxes_.place_of(to.box);
      }
      follow_boxes();
      transport_->send(filled);
      sent += filled;
      if (filled < room.size()) break;
    }
    return sent != 0;
  }

  // The transport must know the boxes before the first sum leaves. Of the first it needs the MAC only: a server has no
  // window, and gets no results by multicast.
  void follow_memberships() {
    bool changed = false;
    for (std::size_t job = 0; job < engine_->jobs(); ++job) {
      const PsJobStatistics& counted = engine_->statistics(job);
      const ServerMember& member = engine_->member(job);
      const std::uint64_t version = counted.epochs + counted.enlisted + member.seat().address_version();
      if (version == followed_[job]) continue;
      followed_[job] = version;
      changed = true;
      if (!member.membership() || member.address(0) != first_) continue;
      engine::Membership box = *member.membership();
      box.results = ResultsMode::kUnicast;
      box.window = 0;
      transport_->joined(box);
    }
    if (!changed) return;
    boxes_.list(*engine_);
    follow_boxes();
  }

  void follow_boxes() {
    if (!boxes_.take_changed()) return;
    if (const auto set = transport_->set_boxes(boxes_.all()); !set)
      std::fprintf(stderr, "tally-ps: path: %s\n", set.error().text().c_str());
  }

  void tell_events() {
    while (const auto event = engine_->next_event())
      std::fprintf(stderr, "tally-ps: %s\n", event_line(*engine_, *event).c_str());
  }

  void tell_statistics() {
    if (const std::string trouble = transport_->trouble(); trouble != trouble_) {
      trouble_ = trouble;
      if (!trouble.empty()) std::fprintf(stderr, "tally-ps: path: %s\n", trouble.c_str());
    }
    const std::string line = settings_.json ? statistics_json(*engine_) : statistics_line(*engine_);
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  TimeNs statistics_interval() const noexcept {
    return static_cast<TimeNs>(settings_.statistics.count()) * kSecond;
  }

  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<PsEngine> engine_;
  const PsSettings& settings_;
  std::atomic<bool> stop_ = false;
  TimeNs now_ = 0;
  TimeNs statistics_due_ = kNever;
  bool path_full_ = false;
  const Ipv6 first_;  // box, which the transport was opened for
  PathBoxes boxes_{first_};
  std::vector<std::uint64_t> followed_;  // by job: what the transport has heard of
  std::string trouble_;                  // of the path, as it was last told
};

int serve(const PsSettings& settings) {
  // First, so that every thread of DPDK has the signals blocked.
  std::atomic<PsRun*> running = nullptr;
  std::optional<perf::InterruptWatch> watch;
  watch.emplace([&running](int signal) {
    if (PsRun* const run = running)
      run->stop();
    else
      _exit(128 + signal);
  });
  auto transport = make_transport(settings.transport, {.box = settings.boxes.front(),
                                                       .address = settings.address,
                                                       .mtu = settings.mtu,
                                                       .poll = settings.poll,
                                                       .identity = identity_of(settings)});
  if (!transport) return complain(transport.error());
  auto engine = make_engine(settings, **transport);
  if (!engine) return complain(engine.error());
  PsRun run(std::move(*transport), std::move(*engine), settings);
  running = &run;
  const auto ended = run.run();
  watch.reset();  // before what it stops is gone
  return ended ? 0 : complain(ended.error());
}

int start(int argc, char** argv) {
  auto parsed = parse_command_line(argc, argv);
  if (!parsed) return complain(parsed.error());
  if (const auto* text = std::get_if<PsText>(&*parsed)) {
    std::fputs(text->text.c_str(), stdout);
    return 0;
  }
  return serve(std::get<PsSettings>(*parsed));
}

}  // namespace

}  // namespace tally::ps

int main(int argc, char** argv) {
  try {
    return tally::ps::start(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tally-ps: %s\n", e.what());
    return 1;
  }
}
