#pragma once
// A box in its fleet: it registers under a lease and keeps it, knows the others, runs for the planner's seat and for
// the homes of its jobs, and says when the store is gone. Its jobs go on without the store: nothing here is on the way
// of a packet. Time and the store's news come in. Owner: one thread.
//
// Two who think that they are the planner cannot both write: a plan is written only where the planner's key is still
// the one that its author was elected with. And since being the planner is read from the view, which is in the order of
// the store, a planner has seen every plan of all planners before it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fleet/errands.h"
#include "fleet/lease_keeper.h"
#include "fleet/orders.h"
#include "fleet/records.h"
#include "fleet/seats.h"
#include "fleet/view_keeper.h"
#include "tally/error.h"

namespace tally::fleet {

struct MemberOptions {
  std::string prefix = "/tally";  // objection_to_prefix() is empty
  std::string id{};               // a name of at most kMostIdBytes, no other box's
  TimeNs lease = 5 * kSecond;     // whole seconds, 2 or more
  bool plans = true;              // it runs for the planner's seat
};

// How a box is with its fleet.
struct Standing {
  enum class Kind : std::uint8_t {
    kJoining,  // not yet registered
    kMember,
    kTaken,    // another box has its ID
    kIgnored,  // its record stands there, and the fleet does without it
    kRefused,  // the store does not let it
    kAway,     // the store is gone
    kLeft,
  };
  Kind kind = Kind::kJoining;
  TimeNs since = 0;
  std::string text{};  // why, of kTaken, kIgnored, kRefused, kAway; of kJoining if somebody has the ID
};
[[nodiscard]] const char* name_of(Standing::Kind kind) noexcept;

class Member {
 public:
  static constexpr TimeNs kTurn = 50 * kMillisecond;
  static constexpr TimeNs kBetweenRecords = kSecond;

  // store: outlives the member. self: its life is not 0.
  Member(MemberOptions options, Store& store, BoxRecord self, TimeNs now);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Takes the store's news and does what is due; at least every kTurn.
  void tick(TimeNs now);
  // What its record says from now on; is written at most once in kBetweenRecords. `life` and `since` stay.
  void set_self(BoxRecord self);
  // Those that it declares where nobody has, and whose home it takes when that was left; by name.
  void set_jobs(std::map<std::string, OwnJob> jobs) { jobs_ = std::move(jobs); }
  // Whether it runs for the planner's seat from now on; who does not any more gives it back.
  void set_plans(bool plans, TimeNs now);
  // It leaves: the store forgets it and its seats at once, or when its lease ends.
  void leave(TimeNs now);
  // Nothing is under way any more.
  [[nodiscard]] bool left() const noexcept { return lease_.released(); }

  [[nodiscard]] const std::string& id() const noexcept { return options_.id; }
  [[nodiscard]] const View& view() const noexcept { return keeper_.view(); }
  [[nodiscard]] bool knows_fleet() const noexcept { return keeper_.ready(); }
  [[nodiscard]] const Standing& standing() const noexcept { return standing_; }
  [[nodiscard]] std::uint64_t leases_lost() const noexcept { return lease_.lost(); }
  [[nodiscard]] std::uint64_t reads() const noexcept { return keeper_.reads(); }
  // The revision that its plans are fenced with; 0: it is not the planner, or cannot know.
  [[nodiscard]] Revision planner_since(TimeNs now) const;
  [[nodiscard]] bool is_home_of(const std::string& job, TimeNs now) const;
  // Until when, by this clock, no other box can have that seat, which this one has; 0: it does not, or leaves.
  [[nodiscard]] TimeNs home_until(const std::string& job) const;
  // It is in the fleet, and hears what happens there.
  [[nodiscard]] bool hears_fleet(TimeNs now) const {
    return keeper_.ready() && standing_.kind == Standing::Kind::kMember && lease_.holds(now);
  }

  // Outcomes follow. Fails at once where it cannot be done now.
  // plan: of a job that is declared, its number above all plans of the job.
  [[nodiscard]] Result<void> publish(const PlanRecord& plan, TimeNs now);
  // A job that nobody has declared; this box becomes its home.
  [[nodiscard]] Result<void> declare(const JobRecord& job, TimeNs now);
  // Where the members of a job are that runs with this box as its home; nothing is written if that stands there. Their
  // number is drawn here: another one than any facts had, whoever was the home. Empty: it does not run any more.
  [[nodiscard]] Result<void> tell_facts(const std::string& job, std::optional<FactsRecord> facts, TimeNs now);
  // With its home, facts and plans. Its home alone may.
  [[nodiscard]] Result<void> withdraw(const std::string& job, TimeNs now);
  [[nodiscard]] std::vector<Outcome> take_outcomes() { return orders_.take(); }
  // For the log.
  [[nodiscard]] std::vector<Note> take_notes();

 private:
  // Of its own record.
  enum class Step : std::uint8_t { kOutside, kAsking, kInside };

  void take_news(TimeNs now);
  void register_self(TimeNs now);
  void registered(const Errands::Result& result, LeaseId lease, const std::string& text, TimeNs now);
  void take_over(const Pair& former, LeaseId lease, TimeNs now);
  void publish_self(TimeNs now);
  void look_at_own_record();
  void judge_standing(TimeNs now);
  [[nodiscard]] Result<void> may_order(TimeNs now) const;

  MemberOptions options_;
  BoxRecord self_;
  Errands errands_;
  LeaseKeeper lease_;
  ViewKeeper keeper_;
  Seats seats_;
  Orders orders_;
  std::map<std::string, OwnJob> jobs_{};
  TimeNs next_farewell_ = 0;        // to the planner's seat
  std::uint64_t newest_facts_ = 0;  // number of those that this box said last
  // Facts of each job that this box wrote and the view has not come to yet. Empty: none, any more.
  struct ToldFacts {
    std::optional<FactsRecord> facts{};
    Revision revision = 0;    // of the store when they were written
    std::uint64_t reads = 0;  // until all is read anew: that may be another store
  };
  std::map<std::string, ToldFacts> told_facts_{};
  Step step_ = Step::kOutside;
  LeaseId registered_lease_ = 0;
  Revision registered_ = 0;  // its record was created then
  Revision written_at_ = 0;  // and modified then
  std::string written_{};    // and says this
  bool writing_ = false;
  TimeNs next_write_ = 0;
  TimeNs next_try_ = 0;
  std::optional<TimeNs> taken_since_{};  // another life has the ID
  std::string taken_by_{};
  bool leaving_ = false;
  TimeNs begun_;
  Standing standing_{};
  std::vector<Note> notes_{};
};

}  // namespace tally::fleet
