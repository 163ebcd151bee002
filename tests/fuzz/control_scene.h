#pragma once
// What is done to packets of a box's members, and data cores that obey its publications, with what must hold of them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "auth/auth.h"
#include "members/membership.h"
#include "peer.h"
#include "tally/wire.h"

namespace tally {

using members_test::Bytes;
using members_test::Peer;

[[nodiscard]] Header header_of(std::span<const std::byte> datagram);
// The check and the payload's CRC made right, where there is a header.
void reseal(Bytes& datagram);
// The tag, too, where there is room for one.
void retag(Bytes& datagram, const auth::Key& key);

// The data cores: which table they use, and what lies in each line of slot memory.
class Cores {
 public:
  explicit Cores(std::uint32_t lines) : lines_(lines) {}

  // Takes up the publication. Every line of its rows must be zero or in use by the same job with the same
  // layout, and no two rows share one.
  void load(const jobs::Publication& publication);
  void forget();  // the slots are lost: all zero

  [[nodiscard]] const std::vector<std::uint64_t>& loading() const { return versions_; }
  // The cores reached `version`; its table is in force.
  void reached(std::uint64_t version);
  [[nodiscard]] jobs::Row in_force(JobId id) const;

 private:
  struct Use {
    JobId job{};  // 0: zeroed
    std::uint32_t first = 0;
    std::uint16_t elements = 0;
    std::uint32_t in_front = 0;  // of the values of an entry; 0: zeroed
  };
  std::vector<Use> lines_;
  std::map<std::uint64_t, std::shared_ptr<const jobs::JobTable>> tables_;  // published and not yet passed
  std::vector<std::uint64_t> versions_;                                    // not yet reached
  std::shared_ptr<const jobs::JobTable> in_force_;
  std::uint64_t newest_ = 0;
};

}  // namespace tally
