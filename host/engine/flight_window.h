#pragma once
// The anchored window: state of the chunks lowest .. lowest + largest window - 1, where lowest is the first
// chunk without a result. Results above it do not move it. Chunks are indices within the generation (64 bit,
// no wrap). Every step is O(1) but enter_epoch, which walks the window.
//
// Loss is seen before its timer runs out (docs/protocol.md, 8). Of a contribution that has not come the box
// says so by its sequence, of a result those that come after it. Where neither does, of one shard, what is
// sent later arrives later and is answered later, so a chunk without a result is *overtaken* when one sent
// `lead` sendings after it has its own. Only chunks sent once overtake: a result that the box had stored says
// nothing of what the other ranks sent lately. Only the oldest sending is looked at; behind one that waits
// for its timer, others wait too.
//
// Of a job over several boxes all that is said of the order of packets holds of chunks of one *way*, a box and who
// finishes them behind it, and one shard of the box: a *lane*. Each way has lists of its own: what waits for one keeps
// no other one waiting.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/engine_operation.h"
#include "tally/ids.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::engine {

enum class FlightState : std::uint8_t {
  kIdle,     // not yet taken up in this epoch
  kBlocked,  // taken up, but the exponent it needs is not known, or its box does not know this rank
  kReady,    // was blocked, may be sent
  kSent,     // in the order of sending
  kDone,     // has its result
};

// What is done next of a chunk that is under way.
enum class Awaits : std::uint8_t {
  kTimer,     // or is overtaken
  kRepair,    // somebody's contribution is lost: its rank is told so, and sends it again
  kQuestion,  // was last asked for early, and may be again after a round trip
  kLost,      // its result was made and has not come: to be asked for at once
};

struct Flight {
  std::uint64_t index = 0;
  EngineOperation* operation = nullptr;  // set when taken up
  TimeNs sent_at = 0;                    // last time
  std::uint64_t order = 0;               // of that sending among all of the generation
  TimeNs contributed_at = 0;             // first time in this epoch
  TimeNs unfinished_at = 0;              // when the box said so
  std::uint64_t mark = 0;                // order of the newest sending then
  std::uint32_t contributed = 0;         // times in this epoch
  std::uint32_t sends = 0;               // in this epoch, queries included
  std::uint32_t queries = 0;             // in this epoch
  std::uint32_t early = 0;               // of `sends`: early questions
  std::uint32_t wanted = 0;              // of `sends`: contributions that the box or a server asked for
  std::uint32_t sequence = 0;            // of the last contribution in this epoch
  std::uint32_t previous = 0;            // links of the list it is in: positions in the ring
  std::uint32_t next = 0;
  FlightState state = FlightState::kIdle;
  bool offered = false;            // sent in some epoch of the generation
  bool paused = false;             // so long before the last sending that no earlier one is still answered
  bool gone = false;               // a peer said that it has forgotten the result
  bool asking = false;             // the box may have an answer on its way
  Awaits awaits = Awaits::kTimer;  // kSent: which list it is in
  std::uint8_t told = 0;           // results that say that it has one
  bool held = false;               // one says that it has none, and is behind it
  std::uint8_t box = 0;            // that it goes to in this epoch, and its way; set when taken up
  std::uint8_t way = 0;
  std::uint8_t bad_results = 0;        // results with wrong sums, shape or exponent
  std::int8_t exponent = kNoExponent;  // contributed
};

class FlightWindow {
 public:
  // A generation begins: index 0 is the first chunk. `largest_window`: a power of two; 0 holds nothing.
  // Allocates.
  void start(std::uint32_t largest_window);

  // What has no result is taken up again from lowest on, with the new window. Allocates when boxes or ways are not as
  // many as before.
  void enter_epoch(std::uint32_t window, std::size_t boxes = 1, std::size_t ways = 1);

  [[nodiscard]] std::uint64_t lowest() const noexcept { return lowest_; }
  [[nodiscard]] std::uint64_t limit() const noexcept { return lowest_ + allowed_; }  // first that must wait
  [[nodiscard]] std::uint64_t cursor() const noexcept { return cursor_; }            // next to take up
  [[nodiscard]] std::uint64_t offered_end() const noexcept { return offered_end_; }  // next never offered
  [[nodiscard]] bool contains(std::uint64_t index) const noexcept { return index - lowest_ < ring_.size(); }
  [[nodiscard]] Flight& at(std::uint64_t index) noexcept { return ring_[position(index)]; }

  // Everything that was ever offered has its result.
  [[nodiscard]] bool idle() const noexcept { return offered_end_ == lowest_; }
  // Until the next result a window of `chunks`.
  void narrow(std::uint32_t chunks) noexcept { allowed_ = std::min(chunks, window_); }
  // One more, for the one just taken up is not sent.
  void widen() noexcept { allowed_ = std::min(allowed_ + 1, window_); }

  Flight& take_up() noexcept { return at(cursor_++); }
  // To be contributed at once: it is no longer blocked, or was sent, and is wanted again.
  void make_ready(Flight& flight) noexcept;
  // Taken up again, in its turn. Of what is blocked.
  void take_back(Flight& flight) noexcept {
    flight.state = FlightState::kIdle;
    cursor_ = std::min(cursor_, flight.index);
  }
  // Blocked, whatever it waited for.
  void hold(Flight& flight) noexcept {
    unlink(flight);
    flight.state = FlightState::kBlocked;
  }
  void sent(Flight& flight, TimeNs now) noexcept { sent(flight, now, Awaits::kTimer, false); }
  // The contribution that is just being sent is the `number`th to a shard of its box. number: sequence x shards +
  // shard.
  void number(const Flight& flight, std::uint64_t number) noexcept {
    by_number_[number_at(flight.box, number)] = static_cast<std::uint32_t>(position(flight.index));
  }
  // The flight that may have had this number; it is only one that the ring has not forgotten.
  [[nodiscard]] Flight& numbered(std::size_t box, std::uint64_t number) noexcept {
    return ring_[by_number_[number_at(box, number)]];
  }
  // A question, since it is overtaken. kMostEarly times in an epoch at most; the last time it waits for its
  // timer. at_once: the next question for it is due at once.
  void sent_early(Flight& flight, TimeNs now, bool at_once = false) noexcept;
  // Of a flight that is under way another's result says that it has its own. When three say so since it was
  // last asked for it is lost, for the network may have changed their order.
  void finished(Flight& flight) noexcept;
  // It says that this one has none yet. No reordering of it.
  void unfinished(Flight& flight, TimeNs now) noexcept;
  // What was sent `lead` sendings after that has its result, and this one has not: the repair is lost, too.
  [[nodiscard]] bool unrepaired(const Flight& flight, std::uint32_t lane) const noexcept {
    return delivered_[lane].order >= flight.mark + lead_;
  }
  // It was asked for, and others are awaited: the same. Not after its last early question.
  void await_repair(Flight& flight, TimeNs now) noexcept;
  // What was sent after it was last asked for has its result.
  [[nodiscard]] bool unanswered(const Flight& flight, std::uint32_t lane) const noexcept {
    return delivered_[lane].order >= flight.order + kLeastLead;
  }
  // The chunk of a result that has just been accepted, before done().
  void delivered(const Flight& flight, std::uint32_t lane, TimeNs now) noexcept;
  // From when on its timer runs: since it was sent, or, as long as results come of what was sent before it,
  // since the last of these (RFC 6298, 5.3), for then it is late with all the others, behind them in a queue.
  [[nodiscard]] TimeNs waits_since(const Flight& flight, std::uint32_t lane) const noexcept {
    if (delivered_[lane].order >= flight.order + lead_) return flight.sent_at;
    return std::max(flight.sent_at, delivered_[lane].at);
  }
  void done(Flight& flight) noexcept;  // may move lowest and recycle `flight`

  // Of those of a way that wait for their timer, that are unfinished, and that were last asked for early; and of
  // those, of all ways, whose result is lost.
  [[nodiscard]] Flight* oldest_sent(std::size_t way = 0) noexcept { return first(ways_[way].sent); }
  [[nodiscard]] const Flight* oldest_sent(std::size_t way = 0) const noexcept {
    return first(ways_[way].sent);
  }
  [[nodiscard]] Flight* first_unfinished(std::size_t way = 0) noexcept { return first(ways_[way].repair); }
  [[nodiscard]] const Flight* first_unfinished(std::size_t way = 0) const noexcept {
    return first(ways_[way].repair);
  }
  [[nodiscard]] Flight* oldest_early(std::size_t way = 0) noexcept { return first(ways_[way].early); }
  [[nodiscard]] const Flight* oldest_early(std::size_t way = 0) const noexcept {
    return first(ways_[way].early);
  }
  [[nodiscard]] Flight* first_lost() noexcept { return first(lost_); }
  [[nodiscard]] const Flight* first_lost() const noexcept { return first(lost_); }
  // The lowest chunk, if nothing but time tells when to ask for it.
  [[nodiscard]] Flight* lowest_sent() noexcept {
    if (offered_end_ == lowest_) return nullptr;
    Flight& flight = at(lowest_);
    return flight.state == FlightState::kSent && !flight.gone ? &flight : nullptr;
  }
  [[nodiscard]] const Flight* lowest_sent() const noexcept {
    return const_cast<FlightWindow*>(this)->lowest_sent();
  }
  // `at_rest`: nothing new may be sent. Then the last ones can have no `lead` behind them, and kLeastLead
  // will do.
  [[nodiscard]] bool overtaken(const Flight& flight, std::uint32_t lane, bool at_rest) const noexcept {
    const std::uint64_t lead = at_rest && newest_ < flight.order + lead_ ? kLeastLead : lead_;
    return flight.early < kMostEarly && delivered_[lane].order >= flight.order + lead;
  }
  [[nodiscard]] Flight* first_ready() noexcept { return first(ready_); }
  [[nodiscard]] bool any_ready() const noexcept { return ready_.head != kNone; }

  static constexpr std::uint32_t kMostEarly = 3;
  static constexpr std::uint32_t kLeastLead = 3;  // TCP's three later arrivals

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct List {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
  };
  struct WayLists {
    List sent;
    List early;
    List repair;
  };
  struct Delivered {
    std::uint64_t order = 0;  // of the last sending among those of a lane with a result
    TimeNs at = 0;            // when that changed last
  };

  [[nodiscard]] Flight* first(const List& list) noexcept {
    return list.head == kNone ? nullptr : &ring_[list.head];
  }
  [[nodiscard]] const Flight* first(const List& list) const noexcept {
    return list.head == kNone ? nullptr : &ring_[list.head];
  }
  [[nodiscard]] List& list_of(const Flight& flight) noexcept {
    WayLists& lists = ways_[flight.way];
    switch (flight.awaits) {
      case Awaits::kRepair:
        return lists.repair;
      case Awaits::kQuestion:
        return lists.early;
      case Awaits::kLost:
        return lost_;
      case Awaits::kTimer:
        break;
    }
    return lists.sent;
  }
  void sent(Flight& flight, TimeNs now, Awaits awaits, bool first) noexcept;

  [[nodiscard]] std::size_t position(std::uint64_t index) const noexcept {
    return index & (ring_.size() - 1);
  }
  // Each box has its own part of the ring: those of one that is used little are not forgotten for another's.
  [[nodiscard]] std::size_t number_at(std::size_t box, std::uint64_t number) const noexcept {
    return 2 * ring_.size() * box + (number & (2 * ring_.size() - 1));
  }
  void append(List& list, Flight& flight) noexcept;
  void prepend(List& list, Flight& flight) noexcept;
  void remove(List& list, Flight& flight) noexcept;
  void unlink(Flight& flight) noexcept;

  std::vector<Flight> ring_;
  std::vector<std::uint32_t> by_number_;  // positions in the ring, of the newest contributions
  std::vector<WayLists> ways_ = std::vector<WayLists>(1);
  List lost_;
  List ready_;
  std::uint64_t sendings_ = 0;
  std::uint64_t newest_ = 0;  // order of the newest sending of a chunk that was sent once
  std::uint64_t lead_ = 0;
  std::vector<Delivered> delivered_ = std::vector<Delivered>(kMaxShards);  // of each way as many lanes
  std::uint64_t lowest_ = 0;
  std::uint64_t cursor_ = 0;
  std::uint64_t offered_end_ = 0;
  std::uint32_t window_ = 0;
  std::uint32_t allowed_ = 0;  // window_, or less until the next result
};

}  // namespace tally::engine
