#pragma once
// A store in memory, in virtual time: what etcd does with revisions, leases, transactions and watches, and what a
// network does to those who ask it. That it does as etcd does is compared with one (tests/process/fleet_caller.cc).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "fleet/store.h"
#include "rng.h"
#include "tally/time.h"

namespace tally {

// The store itself, without a network: requests are done at once.
class FakeServer {
 public:
  using Result = fleet::StoreResult;

  [[nodiscard]] Result apply(const fleet::Request& request);
  // Leases end by this clock. Does not go back.
  void advance(TimeNs now);
  // It stands still: leases do not end until it goes on, and then those whose time is over end at once.
  void freeze(bool frozen) { frozen_ = frozen; }
  // Forgets what was before that revision.
  void compact(fleet::Revision revision) { compacted_ = std::max(compacted_, revision); }
  // As new: another store at the same address.
  void wipe();
  void end_lease(fleet::LeaseId lease);

  [[nodiscard]] fleet::Revision revision() const noexcept { return revision_; }
  [[nodiscard]] fleet::Revision compacted() const noexcept { return compacted_; }
  [[nodiscard]] const std::map<std::string, fleet::Pair>& pairs() const noexcept { return pairs_; }
  [[nodiscard]] const std::vector<fleet::Change>& history() const noexcept { return history_; }
  [[nodiscard]] std::uint64_t incarnation() const noexcept {
    return incarnation_;
  }  // one more for each wipe()
  [[nodiscard]] std::size_t leases() const noexcept { return leases_.size(); }

 private:
  struct Lease {
    TimeNs ttl = 0;
    TimeNs until = 0;
  };

  [[nodiscard]] std::vector<fleet::Pair> read(const fleet::Read& read, std::uint64_t& count) const;
  // At revision `at`. False: nothing changed.
  bool put(const fleet::Put& put, fleet::Revision at);
  bool erase(const std::string& from, const std::function<bool(const std::string&)>& within,
             fleet::Revision at);
  bool step(const fleet::Step& step, fleet::Revision at, fleet::Reply& reply);
  [[nodiscard]] bool holds(const fleet::Compare& compare) const;
  [[nodiscard]] bool knows(fleet::LeaseId lease) const { return lease == 0 || leases_.contains(lease); }
  [[nodiscard]] Result transact(const fleet::Transaction& transaction);

  TimeNs now_ = 0;
  bool frozen_ = false;
  fleet::Revision revision_ = 1;
  fleet::Revision compacted_ = 0;
  std::map<std::string, fleet::Pair> pairs_{};
  std::vector<fleet::Change> history_{};
  std::map<fleet::LeaseId, Lease> leases_{};
  fleet::LeaseId last_lease_ = 1000;
  std::uint64_t incarnation_ = 0;
};

// What happens on the way to a server and back. Shares of requests; times are drawn from 0 to their value.
struct FakeFaults {
  TimeNs delay = 0;          // there and back, each
  double lose_request = 0;   // it never arrives
  double lose_answer = 0;    // it is done, and nobody hears of it
  bool unreachable = false;  // nothing arrives, and watches hear nothing
  bool refused = false;      // who asks may not
};

// One who asks the server. Owner: the test's thread, which calls take() as its engine does.
class FakeStore : public fleet::Store {
 public:
  FakeStore(FakeServer& server, std::uint64_t seed) : server_(server), rng_(seed) {}

  FakeFaults faults{};

  // Before take(): what is due until then happens. Does not go back.
  void advance(TimeNs now);

  fleet::Ticket ask(fleet::Request request, TimeNs deadline) override;
  fleet::WatchId watch(std::string prefix, fleet::Revision from) override;
  void unwatch(fleet::WatchId watch) override { watches_.erase(watch); }
  std::vector<fleet::News> take() override { return std::exchange(news_, {}); }

  [[nodiscard]] std::size_t watches() const noexcept { return watches_.size(); }

 private:
  struct Event {
    TimeNs at = 0;
    std::uint64_t number = 0;
    std::function<void()> happens{};
    bool operator<(const Event& other) const noexcept {  // the first one is the greatest
      return std::pair(at, number) > std::pair(other.at, other.number);
    }
  };
  struct Watch {
    std::string prefix{};
    fleet::Revision from = 0;
    std::size_t next = 0;  // of the server's history
    std::uint64_t incarnation = 0;
    TimeNs heard = 0;  // news never overtake one another
  };

  void later(TimeNs at, std::function<void()> happens);
  [[nodiscard]] TimeNs way() { return faults.delay == 0 ? 0 : rng_.below(faults.delay + 1); }
  void answer(fleet::Ticket ticket, FakeServer::Result result);
  void look(fleet::WatchId id, Watch& watch);

  FakeServer& server_;
  Rng rng_;
  TimeNs now_ = 0;
  std::uint64_t numbers_ = 0;
  std::priority_queue<Event> events_{};
  std::map<fleet::Ticket, bool> open_{};  // whether it was applied
  std::map<fleet::WatchId, Watch> watches_{};
  TimeNs last_request_[2] = {
      0, 0};  // NOLINT(modernize-avoid-c-arrays) of leases, of all others: they keep their order
  std::vector<fleet::News> news_{};
};

}  // namespace tally
