#pragma once
// The boxes of all jobs of a server as its transport has them: each address once, in an order. The engine speaks of
// addresses. One thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "api/transport.h"
#include "ps/ps_engine.h"
#include "tally/net.h"

namespace tally::ps {

class PathBoxes {
 public:
  // first: which the transport was opened for. It stays the first one.
  explicit PathBoxes(const Ipv6& first) : first_(first) { clear(); }

  // What the members of the jobs know now, and nothing else. Places that were told before are void.
  void list(const PsEngine& engine);
  // Of an address that is not there, too: it becomes the last one.
  [[nodiscard]] std::uint16_t place_of(const Ipv6& box);
  // place: what a transport said. All zero for one that there is not: nobody's.
  [[nodiscard]] const Ipv6& address(std::size_t place) const noexcept {
    static constexpr Ipv6 kNobody{};
    if (place == 0) return first_;
    return place < all_.size() ? all_[place].address : kNobody;
  }
  // As a transport takes it: the first one has no address.
  [[nodiscard]] std::span<const BoxAddress> all() const noexcept { return all_; }
  // Whether the transport has not heard of the list yet; it will now.
  [[nodiscard]] bool take_changed() noexcept { return std::exchange(changed_, false); }

 private:
  void clear();
  void add(const Ipv6& box, const Mac& mac);

  Ipv6 first_;
  std::vector<BoxAddress> all_;
  std::map<Ipv6, std::uint16_t> places_;
  bool changed_ = false;
};

}  // namespace tally::ps
