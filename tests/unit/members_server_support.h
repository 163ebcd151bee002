#pragma once
// A job of two workers and two external servers.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "members_support.h"

namespace tally::members_test {

struct MembersServer : testing::Test, Bench {
  MembersServer() : Bench(shared_box(65'536, 100)) {}

  JobId id = declare(served_of(2, 2));
  std::vector<Peer> workers{Peer(0), Peer(1)};
  std::vector<Peer> servers{Peer::server(0), Peer::server(1)};

  std::vector<Peer*> all() { return {&workers[0], &workers[1], &servers[0], &servers[1]}; }
  // Time goes by; everybody else says that it is there.
  std::vector<Sent> wait(TimeNs time, const Peer* silent = nullptr) {
    std::vector<Sent> sent;
    for (TimeNs passed = 0; passed < time; passed += kSecond) {
      for (const Peer* p : all()) {
        if (p != silent) send(*p, p->heartbeat());
      }
      const auto some = advance(std::min(kSecond, time - passed));
      sent.insert(sent.end(), some.begin(), some.end());
    }
    return sent;
  }
  std::uint64_t dropped(members::MembershipDrop d) const { return members->counters().of(d); }
};

inline JoinStatus status_for(const std::vector<Sent>& sent, const Peer& p) {
  return only(sent, PacketType::kJoined, p).status();
}

}  // namespace tally::members_test
