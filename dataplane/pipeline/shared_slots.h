#pragma once
// Which entries of a core's shared region can be claimed, and in which order they are tried. Beside the
// registers, as a chip's match stage would hold it; both executions use the same. Owner: the core.
//
// Every entry is in exactly one of two lists: available (free or complete; a complete one keeps its values to
// repair losses until it is claimed) or filling. Oldest first.

#include <cstdint>
#include <vector>

#include "jobs/layout.h"

namespace tally::pipeline {

inline constexpr std::uint32_t kNoEntry = 0xFFFF'FFFF;

class SharedSlots {
 public:
  explicit SharedSlots(const jobs::SharedRegion& region);

  [[nodiscard]] const jobs::SharedRegion& region() const noexcept { return region_; }
  [[nodiscard]] std::uint32_t line_of(std::uint32_t entry) const noexcept { return region_.line_of(entry); }
  [[nodiscard]] bool filling(std::uint32_t entry) const noexcept { return links_[entry].filling; }
  [[nodiscard]] std::uint32_t filling() const noexcept { return filling_; }

  // The entry that has been available for longest; kNoEntry: all are filling.
  [[nodiscard]] std::uint32_t oldest_available() const noexcept { return first_of(available_end()); }
  // The next filling entry of the clock hand, which moves on; kNoEntry: none is filling.
  [[nodiscard]] std::uint32_t next_victim() noexcept;
  // One entry after the other, all of them in turn, for the age sweep.
  [[nodiscard]] std::uint32_t next_to_sweep() noexcept {
    if (++sweep_ >= region_.entries) sweep_ = 0;
    return sweep_;
  }

  void claimed(std::uint32_t entry) noexcept;   // available -> filling, behind the clock hand
  void released(std::uint32_t entry) noexcept;  // filling -> available, the youngest of them

 private:
  struct Link {
    std::uint32_t before = 0;
    std::uint32_t after = 0;
    bool filling = false;
  };
  // The ends of both lists are links behind the entries'.
  [[nodiscard]] std::uint32_t available_end() const noexcept { return region_.entries; }
  [[nodiscard]] std::uint32_t filling_end() const noexcept { return region_.entries + 1; }
  [[nodiscard]] std::uint32_t first_of(std::uint32_t end) const noexcept {
    const std::uint32_t first = links_[end].after;
    return first == end ? kNoEntry : first;
  }
  void unlink(std::uint32_t entry) noexcept;
  void append(std::uint32_t entry, std::uint32_t end) noexcept;

  jobs::SharedRegion region_;
  std::vector<Link> links_;
  std::uint32_t filling_ = 0;
  std::uint32_t sweep_ = 0;
};

}  // namespace tally::pipeline
