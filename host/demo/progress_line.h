#pragma once
// The line that shows how far the jobs are: on stderr, redrawn in place, and only on a terminal.

#include <chrono>
#include <span>
#include <string>

namespace tally {

struct ProgressPart {
  std::string name{};
  double share = 0;  // 0..1
};

// "resnet50 [######----]  60 %   bert [##--------]  20 %   12 s", with colour codes if wanted.
[[nodiscard]] std::string progress_text(std::span<const ProgressPart> parts, std::chrono::seconds elapsed,
                                        bool colour);

class ProgressLine {
 public:
  // Decides by the terminal, TERM and NO_COLOR (no-color.org).
  ProgressLine();
  // At most every 100 ms; does nothing without a terminal.
  void show(std::span<const ProgressPart> parts);
  // Before anything else is written to the terminal.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_ = false;
  bool colour_ = false;
  bool shown_ = false;
  Clock::time_point begun_ = Clock::now();
  Clock::time_point next_ = Clock::now();
};

}  // namespace tally
