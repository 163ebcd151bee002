#pragma once
// What a member knows of its fleet: all records under the prefix, at one revision of the store. What stands there and
// is no record is named and counted, and is as if it were not there. Pure. Owner: one thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fleet/records.h"
#include "fleet/store.h"

namespace tally::fleet {

struct SeenBox {
  BoxRecord record{};
  Revision created = 0;
  LeaseId lease = 0;
};

// The home of a job, or the planner.
struct SeenSeat {
  SeatRecord record{};
  Revision created = 0;
  LeaseId lease = 0;
};

struct SeenJob {
  std::optional<JobRecord> record{};  // empty: only a home or plans are left of it
  Revision created = 0;               // of the record
  std::optional<SeenSeat> home{};
  std::optional<FactsRecord> facts{};  // empty: it does not run, or nobody says so
  std::map<std::uint32_t, std::shared_ptr<const PlanRecord>> plans{};  // by number
  bool bad_home = false;                                               // something stands there

  // Not null if there is one.
  [[nodiscard]] std::shared_ptr<const PlanRecord> newest_plan() const {
    return plans.empty() ? nullptr : plans.rbegin()->second;
  }
  // It runs, and its newest plan is for other facts.
  [[nodiscard]] bool wants_plan() const {
    return record && home && facts && (plans.empty() || plans.rbegin()->second->facts != facts->number);
  }
  // Of its plans the newest, if it is for the facts that stand there.
  [[nodiscard]] std::shared_ptr<const PlanRecord> plan_for_facts() const {
    return facts && !plans.empty() && !wants_plan() ? newest_plan() : nullptr;
  }
};

// Something that people may want to read, and whether it is bad.
struct Note {
  bool bad = false;
  std::string text{};
};

class View {
 public:
  explicit View(const std::string& prefix) : keys_(prefix) {}

  // All there is at `revision`.
  void reset(const std::vector<Pair>& pairs, Revision revision);
  // What came behind it, in its order.
  void apply(const std::vector<Change>& changes, Revision revision);

  [[nodiscard]] const Keys& keys() const noexcept { return keys_; }
  [[nodiscard]] Revision revision() const noexcept { return revision_; }    // 0: nothing was read yet
  [[nodiscard]] std::size_t size() const noexcept { return held_.size(); }  // keys, bad ones too
  [[nodiscard]] const std::map<std::string, SeenBox>& boxes() const noexcept { return boxes_; }
  [[nodiscard]] const std::map<std::string, SeenJob>& jobs() const noexcept { return jobs_; }
  [[nodiscard]] const std::optional<SeenSeat>& planner() const noexcept { return planner_; }
  [[nodiscard]] bool holds(const std::string& key) const { return held_.contains(key); }
  // Somebody stands as the planner, understood or not: nobody else can.
  [[nodiscard]] bool planner_taken() const noexcept { return held_.contains(keys_.planner()); }
  // Keys that stand there now and are no record, each with the reason.
  [[nodiscard]] const std::map<std::string, std::string>& bad() const noexcept { return bad_; }
  // How often one was read since the beginning.
  [[nodiscard]] std::uint64_t bad_total() const noexcept { return bad_total_; }
  // What has changed since the last call.
  [[nodiscard]] std::vector<Note> take_notes() { return std::exchange(notes_, {}); }

 private:
  void set(const Pair& pair);
  void erase(const std::string& key);
  // Empty: it is a record.
  [[nodiscard]] std::string place(const Key& key, const Pair& pair);
  void clear(const Key& key, bool gone);
  // Boxes for which there was no room.
  void let_in();
  void forget_empty(const std::string& job);
  void note(std::string text, bool bad = false) { notes_.push_back({bad, std::move(text)}); }

  Keys keys_;
  Revision revision_ = 0;
  std::map<std::string, Revision> held_{};  // each key with its `modified`
  std::map<std::string, SeenBox> boxes_{};
  std::map<std::string, SeenJob> jobs_{};
  std::optional<SeenSeat> planner_{};
  std::map<std::string, std::string> bad_{};
  std::map<std::string, Pair> waiting_{};  // of bad ones, boxes that are too many
  std::uint64_t bad_total_ = 0;
  std::vector<Note> notes_{};
};

}  // namespace tally::fleet
