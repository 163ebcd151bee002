#pragma once
// Contributions that are right but for one thing, and the drop that this must be.

#include <cstdint>

#include "frames.h"
#include "pool_oracle.h"

namespace tally {

// In the form that p says.
[[nodiscard]] Bytes datagram_of(const jobs::NativeJob& job, const Offered& p);
// Is it shorter where rows of zeros are left out that need not be kept?
[[nodiscard]] bool rows_shorten(const Offered& p);

struct Forged {
  Bytes datagram;
  jobs::Binding from;
  Drop why{};
  bool before_match = false;  // dropped so whether the job exists or not
};

inline constexpr std::uint32_t kForgeries = 15;

// which: below kForgeries. other: odd; how far the field is from what it should be, where that can be chosen.
[[nodiscard]] Forged forged_contribution(const jobs::NativeJob& job, Offered p, std::uint32_t which,
                                         std::uint16_t other);

inline constexpr std::uint32_t kForgedRows = 5;

// SPARSE, and its rows are not what its bitmap says. which: below kForgedRows.
[[nodiscard]] Forged forged_rows(const jobs::NativeJob& job, Offered p, std::uint32_t which,
                                 std::uint16_t other);

}  // namespace tally
