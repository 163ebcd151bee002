#pragma once
// Answers that grow with the number of jobs, made in pieces of some rows each: however large the box is, no
// request holds the control thread for longer than a piece takes. Pure.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "api/request.h"
#include "api/snapshot.h"

namespace tally::api {

class LongAnswer {
 public:
  // What the methods job.list, slot.show, drop.list, plan.show and stats.get answer. box: not null.
  [[nodiscard]] static LongAnswer job_list(std::shared_ptr<const Snapshot> box);
  [[nodiscard]] static LongAnswer slot_show(std::shared_ptr<const Snapshot> box);
  [[nodiscard]] static LongAnswer drop_list(std::shared_ptr<const Snapshot> box);
  // plan.show without a name. every_load: else the fullest of each job.
  [[nodiscard]] static LongAnswer plan_show(std::shared_ptr<const Snapshot> box, bool every_load);
  [[nodiscard]] static LongAnswer stats(std::shared_ptr<const Snapshot> box);

  // The next piece of the JSON text, of some 10 KiB; empty: that was all.
  [[nodiscard]] std::string next();
  // All that is left, at once.
  [[nodiscard]] std::string all();

 private:
  // Adds what stands at `row` to a list: nothing, one object or several.
  using AddRow = void (*)(const Snapshot& box, std::size_t row, Json& list);
  struct Part {
    std::string before{};  // text; then the rows, with commas
    std::size_t rows = 0;
    AddRow add = nullptr;
  };

  explicit LongAnswer(std::shared_ptr<const Snapshot> box) : box_(std::move(box)) {}
  // The members of `head`, then `key` with a list of rows; the object stays open.
  void list(const Json& head, const char* key, std::size_t rows, AddRow add);
  // Ends what is open within the answer, then the answer.
  void close(const std::string& open);
  void text(std::string text) { parts_.push_back({std::move(text)}); }

  std::shared_ptr<const Snapshot> box_;
  std::vector<Part> parts_{};
  std::size_t part_ = 0;
  std::size_t row_ = 0;
  bool begun_ = false;  // of this part: its text is out
  bool any_ = false;    // ... and a row of it
};

}  // namespace tally::api
