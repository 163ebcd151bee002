#pragma once
// A job of three ranks that runs.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "members_support.h"

namespace tally::members_test {

struct MembersRunning : testing::Test, Bench {
  JobId id = declare(config_of(3));
  std::vector<Peer> peers{Peer(0, 3), Peer(1, 3), Peer(2, 3)};
  MembersRunning() { EXPECT_TRUE(form(peers)); }

  // Each gets one ABORT that it would accept, with this text.
  void expect_aborted(const std::vector<Sent>& sent, std::initializer_list<int> ranks,
                      const std::string& text) {
    std::size_t aborts = 0;
    for (const auto& s : sent) aborts += s.type() == PacketType::kAbort ? 1 : 0;
    EXPECT_EQ(aborts, ranks.size());
    for (const int r : ranks) {
      const Peer& p = peers[static_cast<std::size_t>(r)];
      const Sent s = only(sent, PacketType::kAbort, p);
      EXPECT_EQ(s.header.job.host(), p.job_id);
      EXPECT_EQ(s.header.epoch.host(), p.epoch);
      EXPECT_EQ(s.header.cookie.host(), p.result_cookie);
      EXPECT_EQ(s.text(), text);
    }
    EXPECT_EQ(status(id).phase, members::JobPhase::kAborted);
    EXPECT_EQ(status(id).reason, text);
    EXPECT_EQ(row(id), nullptr);
    EXPECT_EQ(status(id).slots.count, 0U);
  }
  void everyone_beats() {
    for (const auto& p : peers) EXPECT_EQ(send(p, p.heartbeat()).size(), 1U);
  }
};

}  // namespace tally::members_test
