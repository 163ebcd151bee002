#pragma once
// The seats of a fleet that one box alone may have: the planner's, and the home of each job. Who finds one empty puts
// itself there in a transaction that holds only while it is empty; the lease of the box empties it. Owner: one thread.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fleet/errands.h"
#include "fleet/view.h"

namespace tally::fleet {

// Boxes in the order in which they take the home of a job that has none: others first for each job, the same for all
// who reckon it.
[[nodiscard]] std::vector<std::string> home_order(const std::string& job, std::vector<std::string> ids);

// Who wants a seat, now.
struct Candidate {
  std::string id{};
  std::uint64_t life = 0;
  LeaseId lease = 0;
  Revision registered = 0;  // when its record was created: who is not registered any more gets no seat
};

class Seats {
 public:
  // A box further down in home_order() lets those before it go first by so much each.
  static constexpr TimeNs kCourtesy = 300 * kMillisecond;

  explicit Seats(Errands& errands) noexcept : errands_(errands) {}

  void run_for_planner(const View& view, const Candidate& me, TimeNs now);
  void run_for_homes(const View& view, const Candidate& me, TimeNs now);

 private:
  static constexpr TimeNs kRetry = 250 * kMillisecond;

  // more: what else must hold.
  void run(const View& view, const std::string& key, const Candidate& me, std::vector<Compare> more,
           TimeNs now);

  Errands& errands_;
  std::set<std::string> asking_{};
  std::map<std::string, TimeNs> next_{};      // of each key that was tried
  std::map<std::string, TimeNs> orphaned_{};  // since when a job has no home
};

}  // namespace tally::fleet
