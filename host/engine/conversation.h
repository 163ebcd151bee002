#pragma once
// What a member and control of a box say to each other, as far as all its seats have it in common: when
// something is said again, which secrets it bears, and what of the other side is believed. A member has one
// Speaker, and of each box that it is in touch with one Knock and one Counters.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "auth/auth.h"
#include "engine/datagram.h"
#include "engine/engine_operation.h"
#include "kernels/kernels.h"
#include "tally/ids.h"
#include "tally/mix64.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::engine {

// When to say something again to control: at once, then after 100 ms doubling to 1 s. start() never brings
// the next saying closer than 100 ms to the last.

inline constexpr TimeNs kFirstRepeat = 100 * kMillisecond;
inline constexpr TimeNs kLastRepeat = kSecond;
inline constexpr TimeNs kHintPause = 100 * kMillisecond;  // between HEARTBEATs because of hints

class Backoff {
 public:
  void start(TimeNs now) noexcept {
    due_ = said_before_ ? std::max(now, last_ + kFirstRepeat) : now;
    interval_ = kFirstRepeat;
    tries_ = 0;
  }
  void stop() noexcept { due_ = kNever; }
  void said(TimeNs now) noexcept {
    said_before_ = true;
    last_ = now;
    due_ = now + interval_;
    interval_ = std::min(2 * interval_, kLastRepeat);
    ++tries_;
  }
  // At once, and it does not count as one more repetition.
  void hurry(TimeNs now) noexcept {
    interval_ = std::min(due_ - last_, kLastRepeat);
    due_ = now;
  }
  // Not before that time.
  void put_off(TimeNs until) noexcept { due_ = std::max(due_, until); }
  [[nodiscard]] TimeNs due() const noexcept { return due_; }
  [[nodiscard]] std::uint32_t tries() const noexcept { return tries_; }

 private:
  TimeNs due_ = kNever;
  TimeNs last_ = 0;
  TimeNs interval_ = kFirstRepeat;
  std::uint32_t tries_ = 0;
  bool said_before_ = false;
};

// splitmix64 (Steele, Lea, Flood, OOPSLA'14), reproducible from its seed. Who sees one of its words knows all
// that follow, so nothing of it goes on the wire as it is.

class EngineRandom {
 public:
  explicit constexpr EngineRandom(std::uint64_t seed) noexcept : state_(seed) {}
  constexpr std::uint64_t next() noexcept { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }

 private:
  std::uint64_t state_;
};

struct Said {
  std::size_t bytes = 0;  // 0: nothing is due
  PacketType type{};
};

// Who speaks, to whatever box. `kernels` must outlive it.
class Speaker {
 public:
  Speaker(EngineOptions options, const kernels::Kernels& kernels);

  [[nodiscard]] const EngineOptions& options() const noexcept { return options_; }
  [[nodiscard]] const auth::Key& job_key() const noexcept { return job_key_; }
  [[nodiscard]] std::uint64_t new_nonce() noexcept;  // never 0
  [[nodiscard]] std::uint32_t new_attempt() noexcept { return ++attempt_; }
  // Where the counters of one more seat begin: behind those of all before it, for a box may remember one of them.
  // Any start, so that nobody can collect answers to what is not said yet.
  [[nodiscard]] std::uint64_t new_counters() noexcept { return counters_ + (seats_++ << 32); }

  // `body`: bytes behind the header in `out`, which hold all but the tag.
  [[nodiscard]] Said say(const Header& header, std::size_t body, const auth::Key& key,
                         std::span<std::byte> out) const noexcept;

 private:
  EngineOptions options_;
  const kernels::Kernels& kernels_;
  auth::Key secret_;  // nonces and the first counter are made of it
  auth::Key job_key_;
  std::uint64_t nonces_ = 0;  // made so far
  std::uint64_t counters_;
  std::uint64_t seats_ = 0;
  std::uint32_t attempt_ = 0;
};

// JOIN or ENLIST: what is said again under a new nonce until JOINED answers it.
class Knock {
 public:
  void start(TimeNs now) noexcept {
    challenged_ = hurried_ = turned_ = false;
    nonce_ = 0;
    repeat_.start(now);
  }
  // Goes on at another box: what the former one said is nothing to it.
  void forget() noexcept {
    challenge_ = {};
    challenged_ = hurried_ = false;
    nonce_ = 0;
  }
  // There, at once.
  void turn(TimeNs now) noexcept {
    turned_ = true;
    repeat_.hurry(now);
  }
  void stop() noexcept { repeat_.stop(); }
  void put_off(TimeNs until) noexcept { repeat_.put_off(until); }
  // Not as one more repetition.
  void at_once(TimeNs now) noexcept { repeat_.hurry(now); }
  [[nodiscard]] TimeNs due() const noexcept { return repeat_.due(); }
  [[nodiscard]] bool said() const noexcept { return nonce_ != 0; }
  // What is due is so before its time.
  [[nodiscard]] bool hurried() const noexcept { return hurried_ || turned_; }
  [[nodiscard]] bool awaits(std::uint64_t nonce) const noexcept { return nonce_ != 0 && nonce == nonce_; }

  // CHALLENGE: the next knock brings it, and is due at once, the first time since one was due by time, so that
  // who makes up CHALLENGEs on the path doubles the knocks and no more.
  [[nodiscard]] std::optional<Refused> on_challenge(const Datagram& datagram, TimeNs now) noexcept;

  // The knock that is due is being said.
  struct Words {
    std::uint64_t nonce = 0;
    std::uint32_t attempt = 0;
    Tag challenge{};
  };
  [[nodiscard]] Words next(Speaker& speaker, TimeNs now) noexcept {
    challenged_ = std::exchange(hurried_, false);
    turned_ = false;
    repeat_.said(now);
    nonce_ = speaker.new_nonce();
    return {nonce_, speaker.new_attempt(), challenge_};
  }

 private:
  Backoff repeat_;
  std::uint64_t nonce_ = 0;  // of the newest; 0: none was said since it began
  Tag challenge_{};          // newest
  bool challenged_ = false;  // one was answered at once since a knock was last due by time
  bool hurried_ = false;     // ... by the knock that is due
  bool turned_ = false;      // the knock that is due is at once at another box
};

// The counters of HEARTBEAT, LEAVE, ABORT and LOST to one box, and of what it says.
class Counters {
 public:
  explicit Counters(std::uint64_t start) noexcept : counter_(start) {}

  [[nodiscard]] std::uint64_t next() noexcept { return ++counter_; }
  // Control answered: what was said before this moment proves nothing any more.
  void answered() noexcept { answered_ = counter_; }
  void new_session() noexcept { heard_ = 0; }
  // What is said from now on is greater than that.
  void advance(std::uint64_t least) noexcept { counter_ = std::max(counter_, least); }
  // Goes on at another box.
  void move(std::uint64_t start) noexcept { counter_ = answered_ = start; }

  // Of the session with this key, and newer than all before it.
  [[nodiscard]] std::optional<Refused> check_session(const auth::Key& key, const Datagram& datagram) noexcept;
  // REJECT(job): the box does not know the session, and its answer bears the counter of what it answers.
  [[nodiscard]] std::optional<Refused> check_unknown(const auth::Key& job, const Datagram& datagram) noexcept;

 private:
  static constexpr std::uint64_t kAnswerable = 64;  // HEARTBEATs, the newest, that a REJECT may answer

  std::uint64_t counter_;       // of what was said, through all sessions
  std::uint64_t answered_ = 0;  // counter_ when control last answered
  std::uint64_t heard_ = 0;     // greatest of the present session
};

}  // namespace tally::engine
