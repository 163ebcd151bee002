#pragma once
// What a scheduler knows: who is there, with which rank, who waits at which barrier, who is lost. Pure; one thread.
//
//   node -> REGISTER(wish, port; address)   a server says where it listens
//   scheduler -> ROSTER(rank, ports; addresses of the servers)   servers first; when all said READY, the workers
//   node -> BARRIER(groups, exit), scheduler -> RELEASE(groups, exit), or it failed: text
//   scheduler -> GONE(role, rank; text)     of somebody who is lost

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "kv/frame.h"

namespace tally::kv {

[[nodiscard]] std::string name_of(Role role, int rank);
[[nodiscard]] int group_of(Role role) noexcept;

class Rendezvous {
 public:
  using Id = std::uint64_t;  // of a connection
  static constexpr Id kSelf = 0;
  struct Say {
    Id to = kSelf;
    Frame frame{};
    bool last = false;  // close the connection after it
  };
  using Says = std::vector<Say>;

  Rendezvous(int workers, int servers);

  // host: where the connection comes from.
  [[nodiscard]] Says take(Id from, Role role, const std::string& host, const Frame& frame);
  [[nodiscard]] Says lost(Id id, const std::string& why);
  // Nobody waits longer for who did not come.
  [[nodiscard]] Says give_up();
  [[nodiscard]] bool complete() const noexcept { return complete_; }
  [[nodiscard]] std::string missing() const;  // "1 of 2 workers, 0 of 1 servers": who is there

  // The scheduler's own barrier.
  [[nodiscard]] Says barrier(int customer, int groups, bool exit) {
    return arrive(kSelf, customer, groups, exit);
  }

 private:
  struct Member {
    Role role = Role::kWorks;
    int wish = -1;
    int rank = -1;
    std::string host{};
    std::uint16_t port = 0;
    bool ready = false;
    bool leaving = false;  // a worker that waits at the exit
    bool gone = false;
  };
  using Place = std::tuple<int, int, bool>;  // customer, groups, exit

  [[nodiscard]] Says enlist(Id from, Role role, const std::string& host, const Frame& frame);
  void rank_all(Role role, int count);
  [[nodiscard]] Frame roster(const Member& member) const;
  [[nodiscard]] Says rosters(Role role) const;
  [[nodiscard]] Says arrive(Id from, int customer, int groups, bool exit);
  [[nodiscard]] bool in_group(Id id, int groups) const;
  [[nodiscard]] std::string lost_of(int groups) const;
  void release(const Place& place, const std::string& failure, Says& says);
  void settle(Says& says);
  [[nodiscard]] int count(Role role) const;

  const int workers_;
  const int servers_;
  std::map<Id, Member> members_{};
  std::map<Place, std::set<Id>> waiting_{};
  bool complete_ = false;
  bool workers_told_ = false;
};

}  // namespace tally::kv
