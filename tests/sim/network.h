#pragma once
// The network between boxes and endpoints, workers and then servers: one link each to each box, with rate and delay,
// and everything that may happen to a frame on it. Seeded; faults may be changed (healed) at any time.
//
// Links are numbered box by box: that of an endpoint to box b is b times the endpoints, plus the endpoint.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "forger.h"
#include "frames.h"
#include "rng.h"
#include "schedule.h"
#include "tally/time.h"

namespace tally::sim {

// Probabilities per frame and direction.
struct Faults {
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;  // extra delay of up to reorder_delay
  double corrupt = 0;  // a bit flips on the way: the port no longer vouches for it
  double poison = 0;   // a bit of the datagram flips before the checksum was made: the port vouches for it
  double replay = 0;   // some earlier frame of this link comes again, however old
  double late = 0;     // extra delay of up to late_delay
  double forge = 0;    // a copy of it is changed on the path (Forger) and comes too: at once, or much later
  TimeNs reorder_delay = kMillisecond;
  TimeNs late_delay = 3 * kSecond;
  TimeNs forge_delay = 3 * kSecond;
};

// What a test's filter decides about a frame, before the faults above get their turn.
enum class Fate : std::uint8_t { kPass, kLose, kTwice };

struct LinkOptions {
  TimeNs delay = 10 * kMicrosecond;
  std::uint64_t bits_per_second = 0;  // 0: no serialisation time
  bool vouched = false;               // the receiving port verifies UDP checksums
};

class Network {
 public:
  // `vouched` tells whether the port answers for the frame's checksum.
  using Receiver = std::function<void(std::size_t link, Bytes frame, bool vouched)>;

  // Sees every frame that is sent, before anything happens to it.
  using Observer = std::function<void(std::size_t link, bool up, const Bytes& frame)>;

  // Decides about every frame that is sent, and may change it: as if the sender had written it so.
  using Filter = std::function<Fate(std::size_t link, bool up, Bytes& frame)>;

  Network(Schedule& schedule, std::uint64_t seed, LinkOptions link, std::size_t links);
  void connect(Receiver to_box, Receiver from_box);
  void observe(Observer observer) { observer_ = std::move(observer); }
  void filter(Filter filter) { filter_ = std::move(filter); }
  void set_faults(const Faults& faults) { faults_.assign(up_.size(), faults); }
  void set_faults(std::size_t link, const Faults& faults) { faults_[link] = faults; }

  // When the wire has taken it; 0 where that takes no time.
  TimeNs to_box(std::size_t link, Bytes frame) {
    send(up_[link], link, std::move(frame), true);
    return up_[link].busy_until;
  }
  // Or to a server.
  void to_worker(std::size_t link, Bytes frame) { send(down_[link], link, std::move(frame), false); }

  // A frame that nobody sent (or long ago) comes off the link after its delay: no filter, no faults.
  void inject(std::size_t link, bool up, Bytes frame) {
    deliver(link, std::move(frame), up, options_.delay, options_.vouched);
  }

  // A rate of its own, of what is sent in this direction; what waits for it is not lost.
  void set_rate(std::size_t link, bool up, std::uint64_t bits_per_second) {
    (up ? up_ : down_)[link].bits_per_second = bits_per_second;
  }
  // All that is sent in this direction is lost until then.
  void cut(std::size_t link, bool up, TimeNs until);
  // What the endpoint said to control, or control to it, comes again, in its order, within so long.
  void replay_control(std::size_t link, bool up, TimeNs within);

  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  // Control has obeyed this packet. False: the sender of this direction did not send it so, or it was obeyed before.
  // (A LEAVE of an epoch that has ended is answered as often as it comes, and does nothing.)
  [[nodiscard]] bool obey(std::size_t link, bool up, const Bytes& frame);
  // Frames that were changed on the path.
  [[nodiscard]] std::uint64_t forged() const noexcept { return forged_; }

 private:
  static constexpr std::size_t kRemembered = 64;  // frames of a link that may be replayed

  struct Link {
    TimeNs busy_until = 0;
    TimeNs cut_until = 0;
    std::uint64_t bits_per_second = 0;  // 0: no serialisation time
    std::vector<Bytes> past;
    std::vector<Bytes> control;    // the first of them, and the newest
    std::set<std::uint64_t> said;  // names of what was said to control
  };

  void send(Link& way, std::size_t link, Bytes frame, bool up);
  void deliver(std::size_t link, Bytes frame, bool up, TimeNs delay, bool vouched);
  void remember(Link& link, const Bytes& frame);
  [[nodiscard]] static std::array<std::uint32_t, 3> sum_of(const Bytes& frame);
  void forge(std::size_t link, bool up, const Bytes& frame);

  Schedule& schedule_;
  Rng rng_;
  Rng forging_;  // of its own: who forges changes nothing else
  Forger forger_;
  LinkOptions options_;
  std::vector<Faults> faults_;                       // of each link
  std::set<std::array<std::uint32_t, 3>> poisoned_;  // one bit of a sum at most
  std::vector<Link> up_;
  std::vector<Link> down_;
  Receiver box_;
  Receiver endpoint_;
  Observer observer_;
  Filter filter_;
  std::uint64_t sent_ = 0;
  std::uint64_t forged_ = 0;
};

}  // namespace tally::sim
