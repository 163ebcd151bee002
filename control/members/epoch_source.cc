#include "epoch_source.h"

namespace tally {

// The random words are the caller's: a generator stuck at one value must not become an endless loop here.
std::uint64_t EpochSource::nonzero() {
  const std::uint64_t word = random_();
  return word != 0 ? word : 1;
}

Epoch EpochSource::epoch(const std::function<bool(Epoch)>& taken) {
  auto candidate = static_cast<std::uint32_t>(random_());
  while (candidate == 0 || taken(Epoch{candidate})) ++candidate;
  return Epoch{candidate};
}

}  // namespace tally
