#pragma once
// The sums of one job over several boxes, without membership: datagrams in by box, datagrams out by box. Boxes
// are numbered as in the plan, and each has its own id for the job and its own number of shards.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps/ps_job.h"
#include "ps_support.h"
#include "tally/plan.h"

namespace tally::psbed {

inline constexpr BoxIndex kA = 0;
inline constexpr BoxIndex kB = 1;
inline constexpr BoxIndex kC = 2;

// Every rank's route in every group.
using Routes = std::function<Route(std::uint16_t rank, std::uint32_t group)>;
[[nodiscard]] Plan plan_of(std::uint16_t world, std::uint8_t boxes, const Routes& routes);
// Ranks in equal parts, the first ones at box 0.
[[nodiscard]] Plan racks(std::uint16_t world, std::uint8_t boxes);

// What a server knows of the job when its home has told it.
[[nodiscard]] engine::Membership joined_as(const BoxJob& job);
// As box says the job: job ids and shards differ, all else is the home's.
[[nodiscard]] BoxJob at_box(const BoxJob& home, BoxIndex box);

struct BoxOut {
  BoxIndex box = 0;
  Bytes bytes;
  std::uint16_t port = 0;
  [[nodiscard]] Header header() const { return header_of(bytes); }
};

class SeveralBoxes {
 public:
  // All boxes are open. Box 0 is the home.
  SeveralBoxes(const BoxJob& job, const Plan& plan, std::size_t states = 64);

  void enter(const BoxJob& job, const Plan& plan);
  void hear(BoxIndex box, const Bytes& datagram);  // and it is taken
  [[nodiscard]] std::optional<Refused> refused(BoxIndex box, const Bytes& datagram);
  // All that is due now.
  std::vector<BoxOut> drain();
  void none() { EXPECT_TRUE(drain().empty()); }
  // What is sent until then: "3 flush 1", "5 resend 12 to 1" (milliseconds, ranks, box).
  std::vector<std::string> story(TimeNs end);
  [[nodiscard]] BoxJob at(BoxIndex box) const { return at_box(job_, box); }
  [[nodiscard]] std::uint32_t waiting() const { return table_.counters().incomplete; }

  ps::PsJobStatistics counted;
  TimeNs now = kSecond;
  std::uint64_t turns = 0;  // of the timers, in story()

 private:
  BoxJob job_;
  std::unique_ptr<jobs::Line[]> memory_;  // NOLINT(modernize-avoid-c-arrays)
  server::MergeTable table_;
  ps::StateTimerPool timers_;
  ps::SendQueue queue_;

 public:
  ps::PsJob sums;
};

}  // namespace tally::psbed
