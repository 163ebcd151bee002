#pragma once
// The live view: one frame from two answers of stats.get. Pure.

#include <cstddef>
#include <string>

#include "ctl/command.h"

namespace tally::ctl {

struct FrameStyle {
  std::size_t width = 80;   // lines are cut there; at least 40
  std::size_t height = 24;  // rows of jobs, ports and drops that do not fit are counted; 0: all fit
  bool colour = false;      // ANSI: late ranks and what is lost stand out
};

// Rates are between `before` and `now`; before: null if there is none yet, then there are no rates.
[[nodiscard]] std::string top_frame(const Json& before, const Json& now, const FrameStyle& style);

}  // namespace tally::ctl
