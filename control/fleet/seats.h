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

// Members of a job's spec.
inline constexpr const char* kGeneration = "generation";
inline constexpr const char* kTokenCheck = "token_check";

// A job that a box has in its configuration, over several boxes of which it is one: it can be its home.
struct OwnJob {
  JobRecord record{};                    // that it is declared with, where nobody has
  std::vector<std::string> addresses{};  // of its boxes; where there is no fleet the first is the home
  bool at_home = false;                  // this box is the home, as it was told last
  // At the home: what another home of its generation must carry, for who reads the record; null: it has none.
  Json generation = nullptr;  // stands in the spec as kGeneration
  std::string
      objection{};  // why this box could not carry it, or cannot go on to; empty: it can, as far as it knows
};

// What was declared, and what its home says by now: of the spec what this has, and `generation`.
[[nodiscard]] JobRecord declared_anew(const JobRecord& declared, const OwnJob& own);

// Why this box leaves the seat of the job's home to others: it could not carry the job; or the job was declared as
// another one than it has (until Seats::kOutOfDate). Empty: it does not.
[[nodiscard]] std::string objection_to_home(const View& view, const OwnJob& job);

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
  // If for so long no box took it that has the job as it was declared, there is none any more: the others may.
  static constexpr TimeNs kOutOfDate = 60 * kSecond;

  explicit Seats(Errands& errands) noexcept : errands_(errands) {}

  void run_for_planner(const View& view, const Candidate& me, TimeNs now);
  // jobs: by name. Returns those that are to be declared by this box now, since nobody has. What a job is, its home says
  // anew where it has changed; and it gives the seat of one back that it cannot carry any more.
  [[nodiscard]] std::vector<const JobRecord*> run_for_homes(const View& view, const Candidate& me,
                                                            const std::map<std::string, OwnJob>& jobs,
                                                            TimeNs now);

 private:
  static constexpr TimeNs kRetry = 250 * kMillisecond;
  static constexpr TimeNs kBetweenWords = 2 * kSecond;  // of a home about its job: its view may be behind

  [[nodiscard]] bool may_ask(const std::string& key, TimeNs now) const;
  // What came of it the view tells, to all alike: an answer may be lost. Again after `pause` at the earliest.
  void ask(const std::string& key, Transaction transaction, TimeNs now, TimeNs pause = kRetry);
  // more: what else must hold.
  void run(const View& view, const std::string& key, const Candidate& me, std::vector<Compare> more,
           TimeNs now);
  // If this box has the seat: what the job is by now; and that it gives the seat back, if it cannot carry the job.
  void speak_as_home(const View& view, const SeenJob& seen, const Candidate& me, const OwnJob& own,
                     TimeNs now);

  Errands& errands_;
  std::set<std::string> asking_{};
  std::map<std::string, TimeNs> next_{};      // of each key that was tried
  std::map<std::string, TimeNs> orphaned_{};  // since when a job has no home
};

}  // namespace tally::fleet
