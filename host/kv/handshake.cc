#include "kv/handshake.h"

#include <array>
#include <cstring>
#include <span>
#include <string>

namespace tally::kv {
namespace {

constexpr std::size_t kHelloWords = 6;
constexpr std::size_t kProofWords = 2;
static_assert(kProofWords * sizeof(Key) == kTagBytes);

}  // namespace

auth::Key system_key(const std::string& token) { return auth::job_key("tally key-value system", token); }

Handshake::Handshake(const auth::Key& key, bool caller, const Party& self, std::uint64_t nonce0,
                     std::uint64_t nonce1)
    : key_(key), caller_(caller), self_(self), nonce_{nonce0, nonce1} {}

Handshake::Step Handshake::begin() { return {hello(), {}}; }

Handshake::Step Handshake::take(const Frame& frame) {
  const SArray<Key>& words = frame.data.keys;
  if (state_ == State::kHello) {
    if (frame.type != FrameType::kHello || words.size() != kHelloWords)
      return {{}, "it began without a greeting"};
    if (words[0] != kFrameVersion)
      // The other end is told, so that both say it.
      return {caller_ ? std::optional<Frame>() : hello(),
              ("it speaks version " + std::to_string(words[0]) + " of this protocol, and this is version " +
               std::to_string(kFrameVersion) + "; all nodes need the same")};
    if (words[1] < static_cast<Key>(Role::kSchedules) || words[1] > static_cast<Key>(Role::kWorks) ||
        words[2] > 1U << 16)
      return {{}, "it says it is what there is not"};
    peer_ = {static_cast<Role>(words[1]), static_cast<int>(words[2]) - 1, words[3]};
    if (self_.cluster != 0 && peer_.cluster != 0 && self_.cluster != peer_.cluster)
      return {{}, "it belongs to another key-value system"};
    peer_nonce_[0] = words[4];
    peer_nonce_[1] = words[5];
    state_ = State::kProof;
    return {caller_ ? proof(true) : hello(), {}};
  }
  if (frame.type != FrameType::kProof || words.size() != kProofWords)
    return {{}, "it did not prove the token"};
  Tag said;
  std::memcpy(said.data(), words.data(), said.size());
  Tag right;
  const Frame expected = proof(!caller_);
  std::memcpy(right.data(), expected.data.keys.data(), right.size());
  if (!auth::equal(said, right)) return {{}, "it has another token (TALLY_KV_TOKEN)"};
  state_ = State::kDone;
  return {caller_ ? std::optional<Frame>() : proof(false), {}};
}

Frame Handshake::hello() const {
  Frame frame;
  frame.type = FrameType::kHello;
  frame.data.keys = {
      kFrameVersion, static_cast<Key>(self_.role), static_cast<Key>(self_.rank + 1), self_.cluster, nonce_[0],
      nonce_[1]};
  return frame;
}

// Over both greetings, and whose proof it is, so that neither can be given back to who said it.
Frame Handshake::proof(bool of_caller) const {
  const bool mine = of_caller == caller_;
  const Party& prover = mine ? self_ : peer_;
  const std::uint64_t* const caller = caller_ ? nonce_ : peer_nonce_;
  const std::uint64_t* const callee = caller_ ? peer_nonce_ : nonce_;
  const std::array<std::uint64_t, 7> words{caller[0],
                                           caller[1],
                                           callee[0],
                                           callee[1],
                                           static_cast<std::uint64_t>(prover.role),
                                           static_cast<std::uint64_t>(prover.rank + 1),
                                           prover.cluster};
  const Tag tag = auth::challenge(key_, std::as_bytes(std::span(words)), of_caller ? 1 : 2, kFrameVersion);
  Frame frame;
  frame.type = FrameType::kProof;
  frame.data.keys.resize(kProofWords);
  std::memcpy(frame.data.keys.data(), tag.data(), tag.size());
  return frame;
}

}  // namespace tally::kv
