#pragma once
// The job table that the data cores shall load next, and the lines they must zero before they do.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "membership.h"

namespace tally {

class Publisher {
 public:
  void set(JobId id, std::shared_ptr<const Job> row);
  void clear(JobId id);  // nothing to publish if the row is empty already
  void freed(const FreedLines& lines);
  void republish() noexcept { dirty_ = true; }

  // The version that will carry everything said so far. Asked after set(): the version that carries the row.
  [[nodiscard]] std::uint64_t next_version() const noexcept { return version_ + 1; }
  [[nodiscard]] std::optional<Publication> take();

 private:
  std::shared_ptr<const JobTable> table_ = std::make_shared<const JobTable>();
  std::vector<FreedLines> freed_;
  std::uint64_t version_ = 0;
  bool dirty_ = true;  // the empty table is published too: cores always have one
};

}  // namespace tally
