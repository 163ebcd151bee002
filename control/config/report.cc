#include "report.h"

#include <algorithm>
#include <utility>

namespace tally {

void Report::error(Position at, std::string path, Complaint complaint) {
  has_errors_ = true;
  add(Severity::kError, at, std::move(path), std::move(complaint));
}

void Report::warning(Position at, std::string path, Complaint complaint) {
  add(Severity::kWarning, at, std::move(path), std::move(complaint));
}

void Report::add(Severity severity, Position at, std::string path, Complaint complaint) {
  if (is_full()) {
    ++not_kept_;
    return;
  }
  Diagnostic d{
      severity, source_.name(), at, std::move(path), std::move(complaint.message), std::move(complaint.help)};
  if (at.line > 0) {
    Excerpt excerpt = source_.excerpt(at);
    d.excerpt = std::move(excerpt.text);
    d.caret = excerpt.caret;
  }
  found_.push_back(std::move(d));
}

Diagnostics Report::take() {
  std::stable_sort(found_.begin(), found_.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.at < b.at; });
  if (not_kept_ > 0) {
    Diagnostic rest{Severity::kError, source_.name(), found_.back().at};
    rest.message = "there are " + std::to_string(not_kept_) + " more messages";
    rest.help = "is this the right file?";
    found_.push_back(std::move(rest));
  }
  return std::move(found_);
}

}  // namespace tally
