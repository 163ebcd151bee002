// Shared slots under the control loop: caps follow what the cores show, without a stir.

#include <gtest/gtest.h>

#include "daemon/control_loop.h"
#include "daemon_plane.h"
#include "tally/mix64.h"

namespace tally::daemon_test {
namespace {

class DaemonShares : public testing::Test {
 protected:
  DaemonShares() {
    plane.deliver = [this](const Bytes& join, const jobs::Binding& from) {
      loop.members().engine().receive(join, from, now);
    };
    for (Peer& p : as) p.job = std::string("a");
    for (Peer& p : bs) {
      p.job = std::string("b");
      p.binding.udp_port = static_cast<std::uint16_t>(p.binding.udp_port + 100);
    }
    for (auto* peers : {&as, &bs}) {
      for (Peer& p : *peers) plane.receive(p, p.join());
    }
    pass(kSecond);
    EXPECT_NE(row(1), nullptr);
    EXPECT_NE(row(2), nullptr);
  }
  TimeNs turn(TimeNs by) {
    now += by;
    plane.obey(now);
    return loop.turn(now);
  }
  // The last turn's answer: how long the loop would wait.
  TimeNs pass(TimeNs time) {
    TimeNs wait = 0;
    for (const TimeNs end = now + time; now < end;) wait = turn(daemon::ControlLoop::kIdleTurn);
    return wait;
  }
  [[nodiscard]] const jobs::NativeJob* row(std::uint16_t id) const {
    return plane.publications.back().table->find(JobId{id});
  }
  [[nodiscard]] std::uint32_t cap(std::uint16_t id) const {
    return plane.publications.back().table->cap(JobId{id});
  }
  static members::MembershipEngine engine() {
    members::MembershipEngine engine(
        members_test::shared_box(65'536, 1'000, 2),
        [state = std::uint64_t{7}]() mutable { return mix64(state += 0x9e3779b97f4a7c15ULL); });
    for (const char* name : {"a", "b"})
      EXPECT_TRUE(engine.declare(members_test::sharer_of(2, Discipline::kShared, name)));
    return engine;
  }

  TimeNs now = 100 * kSecond;
  FakePlane plane;
  Journal journal;
  std::vector<Peer> as{Peer(0), Peer(1)};
  std::vector<Peer> bs{Peer(0), Peer(1)};
  daemon::ControlLoop loop{plane, engine(), journal.sink(), 10 * kSecond, now};
};

TEST_F(DaemonShares, CapsFollowWhatTheCoresShow) {
  plane.state_of(0, JobId{2}).occupancy = 150;
  plane.state_of(1, JobId{2}).occupancy = 300;  // the busiest core counts
  plane.state_of(1, JobId{1}).slots.denied = 7;
  pass(50 * kMillisecond);
  EXPECT_EQ(cap(1), 700U);
  plane.state_of(0, JobId{2}).slots.denied = 1;
  pass(50 * kMillisecond);
  EXPECT_EQ(cap(1), 500U);
  plane.state_of(1, JobId{2}).occupancy = 10;  // what it was denied is history
  pass(50 * kMillisecond);
  EXPECT_EQ(cap(1), 850U);
}

TEST_F(DaemonShares, NewCapsAreNoPublicationNoHurryAndNoNews) {
  const std::size_t lines = journal.lines.size();
  const std::size_t publications = plane.publications.size();
  for (const std::uint32_t held : {400U, 10U, 300U}) {
    plane.state_of(0, JobId{2}).occupancy = held;
    pass(50 * kMillisecond);
    EXPECT_EQ(turn(daemon::ControlLoop::kIdleTurn), daemon::ControlLoop::kIdleTurn);
    EXPECT_EQ(cap(1), 1'000 - held);
  }
  EXPECT_EQ(plane.publications.size(), publications);
  EXPECT_EQ(journal.lines.size(), lines) << journal.all();
}

}  // namespace
}  // namespace tally::daemon_test
