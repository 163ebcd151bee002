#include "progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "numbers.h"

namespace tally {
namespace {

constexpr double kWidth = 20;
constexpr std::chrono::milliseconds kPeriod{100};
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kPlain = "\x1b[0m";
constexpr const char* kEraseLine = "\r\x1b[K";

}  // namespace

std::string progress_text(std::span<const ProgressPart> parts, std::chrono::seconds elapsed, bool colour) {
  std::string text;
  for (const auto& part : parts) {
    const double share = std::clamp(part.share, 0.0, 1.0);
    const auto full = static_cast<std::size_t>(share * kWidth);
    text += part.name + " [" + (colour ? kGreen : "") + std::string(full, '#') + (colour ? kPlain : "");
    const std::string percent = fixed(static_cast<double>(static_cast<int>(share * 100)), 0);
    text += std::string(static_cast<std::size_t>(kWidth) - full, '-') + "] " +
            std::string(3 - std::min<std::size_t>(3, percent.size()), ' ') + percent + " %   ";
  }
  return text + std::to_string(elapsed.count()) + " s";
}

ProgressLine::ProgressLine() {
  const char* const term = std::getenv("TERM");
  const char* const no_color = std::getenv("NO_COLOR");
  terminal_ = isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
  colour_ = no_color == nullptr || *no_color == '\0';
}

void ProgressLine::show(std::span<const ProgressPart> parts) {
  const auto now = Clock::now();
  if (!terminal_ || now < next_) return;
  next_ = now + kPeriod;
  shown_ = true;
  const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(now - begun_);
  std::fprintf(stderr, "%s%s", kEraseLine, progress_text(parts, elapsed, colour_).c_str());
}

void ProgressLine::clear() {
  if (shown_) std::fputs(kEraseLine, stderr);
  shown_ = false;
}

}  // namespace tally
