// What a turn of control costs where 1,024 jobs are declared: the daemon's loop with membership, on a plane
// that takes everything at once, and the chain of publications with one data core that follows it. All jobs
// but one only declared, and all of them running. And what stats.get holds it for: the snapshot, and the
// longest of the pieces in which it is answered. CPU time of the one thread that does it.

#include <algorithm>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "api/long_answer.h"
#include "daemon/control_box.h"
#include "daemon/control_loop.h"
#include "daemon_plane.h"
#include "harness.h"
#include "io/publication_chain.h"
#include "members_support.h"

namespace tally::bench {
namespace {

constexpr std::uint32_t kJobs = kMaxJobs;
constexpr std::uint16_t kWorkers = 8;
constexpr int kRounds = 15;
constexpr int kTurns = 50;  // of a round

using members_test::Peer;

struct Plane final : daemon_test::FakePlane {
  Plane() : FakePlane(1, 4) {}
  void publish(jobs::Publication p) override {
    chain.publish(std::move(p));
    while (const io::PublicationNode* next = reader.at->next.load(std::memory_order_acquire)) {
      reader.at = next;
      reader.adopted.store(next->publication.version, std::memory_order_release);
    }
  }
  std::uint64_t adopted() const override { return chain.adopted(); }

  io::PublicationReader reader;
  io::PublicationChain chain{{.mac = {2, 1, 2, 3, 4, 5}, .ipv4 = {10, 1, 0, 1}}, {&reader}};
};

class Box {
 public:
  explicit Box(std::uint32_t running)
      : loop_(
            plane_, engine(), [](daemon::LogLevel, std::string_view) {}, 0, now_) {
    plane_.deliver = [this](const members_test::Bytes& datagram, const jobs::Binding& source) {
      loop_.members().engine().receive(datagram, source, now_);
    };
    for (std::uint32_t j = 0; j < running; ++j) form(j);
  }

  // Nothing to do.
  std::pair<double, std::uint64_t> idle() {
    return turns([](int) {});
  }
  // A heartbeat of each member of a job, each turn of another job's.
  std::pair<double, std::uint64_t> heartbeats() {
    return turns([this](int) {
      auto& job = jobs_.at(beats_++ % jobs_.size());
      for (Peer& p : job) plane_.punts.push_back({p.heartbeat(), p.binding});
    });
  }
  // As many as a turn takes, from nobody the box knows.
  std::pair<double, std::uint64_t> strangers() {
    Peer stranger(0, kWorkers);
    stranger.token = "wrong";
    return turns([&](int) {
      for (int i = 0; i < 32; ++i) plane_.receive(stranger, stranger.join());
    });
  }
  // A member of one job has moved, and all cores get another table.
  std::pair<double, std::uint64_t> moves() {
    return turns([this](int) {
      Peer& p = jobs_.front().at(1);
      p.binding.udp_port ^= 1U;
      plane_.receive(p, p.join());
    });
  }

  std::pair<double, std::uint64_t> snapshot() {
    const RoundTimer timer;
    const api::Snapshot all = box_.take();
    require(all.jobs.size() == kJobs, "a snapshot lacks jobs");
    return {timer.done(1).seconds, 1};
  }
  std::pair<double, std::uint64_t> longest_piece() {
    api::LongAnswer answer = api::LongAnswer::stats(std::make_shared<const api::Snapshot>(box_.take()));
    double longest = 0;
    for (std::size_t bytes = 1; bytes != 0;) {
      const RoundTimer timer;
      bytes = answer.next().size();
      longest = std::max(longest, timer.done(1).seconds);
    }
    return {longest, 1};
  }
  // What is done at once beside the snapshot.
  std::pair<double, std::uint64_t> beginning() {
    const auto all = std::make_shared<const api::Snapshot>(box_.take());
    const RoundTimer timer;
    (void)api::LongAnswer::stats(all);
    return {timer.done(1).seconds, 1};
  }

 private:
  static members::MembershipEngine engine() {
    members::MembershipEngine members({.box_mac = {2, 1, 2, 3, 4, 5}, .shards = 1, .slot_lines = 1U << 20},
                                      [state = std::uint64_t{7}]() mutable { return mix64(++state); });
    for (std::uint32_t j = 0; j < kJobs; ++j) {
      members::NativeConfig config = members_test::config_of(kWorkers, "job" + std::to_string(j));
      config.elements = 16;
      config.window = 16;
      require(members.declare(config).has_value(), "a job is not declared");
    }
    return members;
  }

  void form(std::uint32_t j) {
    auto& job = jobs_.emplace_back();
    for (std::uint16_t r = 0; r < kWorkers; ++r) {
      Peer p(r, kWorkers);
      p.job = "job" + std::to_string(j);
      p.elements = 16;
      p.instance = std::uint64_t{j} << 16 | (r + 1U);
      p.binding.address = mapped({10, static_cast<std::uint8_t>(j >> 8), static_cast<std::uint8_t>(j),
                                  static_cast<std::uint8_t>(r)});
      p.binding.udp_port = static_cast<std::uint16_t>(40'000 + r);
      job.push_back(p);
    }
    plane_.injected.clear();
    for (Peer& p : job) plane_.receive(p, p.join());
    for (int i = 0; i < 4; ++i) loop_.turn(now_ += kMillisecond);
    std::size_t told = 0;
    for (const members_test::Sent& s : plane_.injected) {
      if (s.type() != PacketType::kJoined || s.status() != JoinStatus::kRunning) continue;
      for (Peer& p : job) {
        if (p.binding != s.to) continue;
        members_test::Bench::take(p, {s});
        ++told;
      }
    }
    require(told == kWorkers, "a job does not form");
    plane_.injected.clear();
  }

  template <class Prepare>
  std::pair<double, std::uint64_t> turns(const Prepare& prepare) {
    double seconds = 0;
    for (int i = 0; i < kTurns; ++i) {
      prepare(i);
      now_ += kMillisecond;
      const RoundTimer timer;
      loop_.turn(now_);
      seconds += timer.done(1).seconds;
      require(plane_.punts.empty(), "a turn left packets");
      plane_.injected.clear();
    }
    for (const auto& job : jobs_) {
      const JobId id{job.front().job_id};
      for (std::uint16_t r = 0; r < kWorkers; ++r) plane_.state_of(0, id).last_seen[r] = now_;
    }
    return {seconds, kTurns};
  }

  TimeNs now_ = 100 * kSecond;
  Plane plane_;
  daemon::ControlLoop loop_;
  daemon::Reload reload_{config::Config{}, [](daemon::LogLevel, std::string_view) {}};
  api::TurnTimes turns_{};
  daemon::ControlBox box_{{plane_,
                           loop_,
                           reload_,
                           turns_,
                           [](daemon::LogLevel, std::string_view) {},
                           "",
                           "",
                           {},
                           {},
                           [] {},
                           [this] { return now_; },
                           [] {}}};
  std::deque<std::vector<Peer>> jobs_;
  std::size_t beats_ = 0;
};

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  const std::string file = json_argument(argc, argv);
  print_environment();
  std::deque<Box> boxes;
  std::vector<Contender> contenders;
  for (const std::uint32_t running : {1U, kJobs}) {
    Box& box = boxes.emplace_back(running);
    const std::string of = ", " + std::to_string(running) + " of " + std::to_string(kJobs) + " jobs run";
    contenders.push_back({"nothing to do" + of, [&box] { return box.idle(); }});
    contenders.push_back({"8 heartbeats" + of, [&box] { return box.heartbeats(); }});
    contenders.push_back({"32 JOINs, wrong token" + of, [&box] { return box.strangers(); }});
    contenders.push_back({"a member moves" + of, [&box] { return box.moves(); }});
    contenders.push_back({"a snapshot" + of, [&box] { return box.snapshot(); }});
    contenders.push_back({"stats.get begins" + of, [&box] { return box.beginning(); }});
    contenders.push_back({"its longest piece" + of, [&box] { return box.longest_piece(); }});
  }
  report(file, contenders, kRounds, "us a turn", 1e-3);
  return 0;
}
