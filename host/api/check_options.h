#pragma once
// Whether options make sense, before anything is opened.

#include "option_texts.h"
#include "tally/worker.h"

namespace tally {

inline constexpr std::uint16_t kLeastMtu = 616;      // an ABORT with its longest text, over IPv6
inline constexpr std::uint16_t kGreatestMtu = 9198;  // as the box's ports
inline constexpr std::chrono::milliseconds kGreatestJoinTimeout = std::chrono::hours(24);

// The first rule broken, as a sentence with the value and what would be right. `texts`: where the settings
// come from; what is not there came from the program. `complete`: job and box must be set.
[[nodiscard]] Result<void> check_options(const WorkerOptions& options, const OptionTexts& texts,
                                         bool complete);

// Why a text is no job or token; empty if it is fine.
[[nodiscard]] std::string objection_to_text(std::string_view text, std::size_t most_bytes);

}  // namespace tally
