#include "publisher.h"

#include <utility>

namespace tally {

void Publisher::set(JobId id, std::shared_ptr<const Job> row) {
  table_ = table_->with(id, std::move(row));
  dirty_ = true;
}

void Publisher::clear(JobId id) {
  if (table_->row(id) == nullptr) return;
  table_ = table_->with(id, nullptr);
  dirty_ = true;
}

void Publisher::freed(const FreedLines& lines) {
  freed_.push_back(lines);
  dirty_ = true;
}

std::optional<Publication> Publisher::take() {
  if (!dirty_) return std::nullopt;
  dirty_ = false;
  return Publication{++version_, table_, std::exchange(freed_, {})};
}

}  // namespace tally
