#pragma once
// The first words on a connection: both ends say their version and prove that they know the token; until then nothing else
// is taken. The caller proves first, so a stranger sees no tag. Frames behind it are not tagged: the network between nodes
// is trusted as a job's is between workers and box. Pure.
//
//   caller -> HELLO(version, role, rank, cluster, nonce)      callee -> HELLO(the same of its own)
//   caller -> PROOF(tag)                                      callee -> PROOF(tag)

#include <cstdint>
#include <optional>
#include <string>

#include "auth/auth.h"
#include "kv/frame.h"

namespace tally::kv {

// Who stands at an end.
struct Party {
  Role role = Role::kWorks;
  int rank = -1;              // -1: it has none yet
  std::uint64_t cluster = 0;  // random, of the scheduler; 0: it does not know yet
};

// Of the token: what all nodes of a system know.
[[nodiscard]] auth::Key system_key(const std::string& token);

class Handshake {
 public:
  struct Step {
    std::optional<Frame> say{};  // to the other end
    std::string refused{};       // not empty: close the connection after it
  };

  Handshake(const auth::Key& key, bool caller, const Party& self, std::uint64_t nonce0, std::uint64_t nonce1);

  [[nodiscard]] Step begin();  // caller: its HELLO
  [[nodiscard]] Step take(const Frame& frame);
  [[nodiscard]] bool done() const noexcept { return state_ == State::kDone; }
  [[nodiscard]] const Party& peer() const noexcept { return peer_; }  // after its HELLO; proven when done()

 private:
  enum class State : std::uint8_t { kHello, kProof, kDone };
  [[nodiscard]] Frame hello() const;
  [[nodiscard]] Frame proof(bool of_caller) const;

  const auth::Key key_;
  const bool caller_;
  const Party self_;
  const std::uint64_t nonce_[2];
  Party peer_{};
  std::uint64_t peer_nonce_[2] = {};
  State state_ = State::kHello;
};

}  // namespace tally::kv
