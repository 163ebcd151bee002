#pragma once
// Draws what must be unguessable or unique: epochs, cookies, salts, generations (docs/protocol.md, 1).

#include <cstdint>
#include <functional>
#include <utility>

#include "membership.h"

namespace tally {

class EpochSource {
 public:
  explicit EpochSource(RandomWords random) : random_(std::move(random)) {}

  [[nodiscard]] std::uint64_t word() { return random_(); }
  [[nodiscard]] std::uint64_t nonzero();
  [[nodiscard]] Cookie cookie() { return Cookie{nonzero()}; }
  [[nodiscard]] Generation generation() { return Generation{nonzero()}; }
  // An epoch other than 0 that `taken` denies. `taken` must deny some.
  [[nodiscard]] Epoch epoch(const std::function<bool(Epoch)>& taken);

 private:
  RandomWords random_;
};

}  // namespace tally
