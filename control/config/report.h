#pragma once
// Collects the messages about one file.

#include <cstddef>
#include <string>

#include "complaint.h"
#include "diagnostic.h"
#include "yaml_source.h"

namespace tally {

class Report {
 public:
  // The source outlives the report.
  explicit Report(const YamlSource& source) : source_(source) {}

  // at.line 0: about the file as a whole. path: the key, or empty.
  void error(Position at, std::string path, Complaint complaint);
  void warning(Position at, std::string path, Complaint complaint);

  [[nodiscard]] const YamlSource& source() const noexcept { return source_; }
  [[nodiscard]] bool has_errors() const noexcept { return has_errors_; }
  // No more messages are kept; they are only counted.
  [[nodiscard]] bool is_full() const noexcept { return found_.size() >= kMostMessages; }
  // In the order of the file; of two at one place the one reported first.
  [[nodiscard]] Diagnostics take();

 private:
  void add(Severity severity, Position at, std::string path, Complaint complaint);

  // Somebody gave us another program's file; nobody reads more.
  static constexpr std::size_t kMostMessages = 200;

  const YamlSource& source_;
  Diagnostics found_;
  std::size_t not_kept_ = 0;
  bool has_errors_ = false;
};

}  // namespace tally
