#pragma once
// Workers of a box's membership, and data cores that obey its publications, with what must hold of both.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "auth/auth.h"
#include "members/membership.h"
#include "tally/wire.h"

namespace tally {

using Bytes = std::vector<std::byte>;

[[nodiscard]] Header header_of(std::span<const std::byte> datagram);
// The check and the payload's CRC made right, where there is a header.
void reseal(Bytes& datagram);
// The tag, too, where there is room for one.
void retag(Bytes& datagram, const auth::Key& key);

// A worker's side of membership, as far as packets show it.
struct Peer {
  std::string job;
  std::uint16_t rank = 0;
  std::uint16_t world = 2;
  std::uint64_t instance = 0;
  std::uint32_t attempt = 0;
  std::uint64_t nonce = 0;
  std::uint32_t next = 0;
  std::uint16_t elements = 32;
  GenerationRecord last{};
  jobs::Binding binding{};
  // From the newest JOINED(running).
  std::uint16_t job_id = 0;
  std::uint32_t epoch = 0;
  std::uint64_t cookie = 0;
  std::uint64_t result_cookie = 0;
  Tag challenge{};  // newest
  std::uint64_t counter = 0;

  [[nodiscard]] auth::Key job_key() const { return auth::job_key(job, "t"); }
  [[nodiscard]] auth::Key session_key() const;
  [[nodiscard]] Bytes join();
  // Under the session key with the next counter; a PROBE as it is.
  [[nodiscard]] Bytes packet(PacketType type, std::span<const std::byte> payload = {});
  void restart();  // a new process
};

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
