#pragma once
// The seats of a fleet that one box alone may have: the planner's, and the home of each job. Who finds one empty puts
// itself there in a transaction that holds only while it is empty; the lease of the box empties it. Owner: one thread.

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fleet/errands.h"
#include "fleet/view.h"

namespace tally::fleet {

// Boxes in the order in which they take the home of a job that has none: others first for each job, the same for all
// who reckon it.
[[nodiscard]] std::vector<std::string> home_order(const std::string& job, std::vector<std::string> ids);

// A job that a box has in its configuration, over several boxes of which it is one: it can be its home.
struct OwnJob {
  JobRecord record{};                    // that it is declared with, where nobody has
  std::vector<std::string> addresses{};  // of its boxes; where there is no fleet the first is the home
  bool at_home = false;                  // this box is the home, as it was told last
};

// How many boxes that the fleet knows let this one take the job's home later than themselves: who is the home now lets
// nobody go first, and the job's first box nobody else. Empty: it is none of the job's boxes.
[[nodiscard]] std::optional<std::size_t> place_for_home(const View& view, const OwnJob& job,
                                                        const std::string& id);

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
  // And where nobody has declared the job yet, its boxes may be about to begin all at once.
  static constexpr TimeNs kBeginning = 5 * kSecond;

  explicit Seats(Errands& errands) noexcept : errands_(errands) {}

  void run_for_planner(const View& view, const Candidate& me, TimeNs now);
  // jobs: by name. Returns those that are to be declared by this box now, since nobody has.
  [[nodiscard]] std::vector<const JobRecord*> run_for_homes(const View& view, const Candidate& me,
                                                            const std::map<std::string, OwnJob>& jobs,
                                                            TimeNs now);

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
