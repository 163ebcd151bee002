#pragma once
// Who makes packets that no sender made: on the path, from what it reads; off the path, from nothing. It
// makes whatever docs/protocol.md, 13, says does no harm, so no data: who reads a job's cookies can add to
// its sums.

#include <cstddef>
#include <optional>

#include "frames.h"
#include "jobs/binding.h"
#include "rng.h"

namespace tally::sim {

inline constexpr std::size_t kOuterBytes = 42;  // Ethernet, IPv4, UDP

class Forger {
 public:
  explicit Forger(std::uint64_t seed) : rng_(seed) {}

  // Of a frame that it read: the same with a field, a counter or bytes of the payload changed, under CRCs
  // that are right again. Nothing: it is data.
  [[nodiscard]] std::optional<Bytes> changed(const Bytes& frame);

  // To the box, from a binding of its choice; or as the box would send it to a member. Of any type, with what
  // a tenant can know or guess: the job's number, rank and name.
  [[nodiscard]] Bytes made_up_for_box(const jobs::Binding& from);
  [[nodiscard]] Bytes made_up_for_member(const jobs::Binding& to);

 private:
  [[nodiscard]] Bytes made_up(bool for_box);

  Rng rng_;
};

}  // namespace tally::sim
