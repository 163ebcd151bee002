#pragma once
// A job of the discipline `shared` (docs/protocol_box.md, 11.5): a ledger row for each chunk, an entry that
// may be somebody else's at any moment, and a server that keeps what found none. Other jobs are an adversary:
// an entry may be there or not, what fills may be evicted, what is complete be forgotten.

#include <array>

#include "pool_box.h"
#include "rack.h"

namespace tally::models {

struct SharedSetting {
  bool external = false;
  int evictions = 1;        // of what fills; to an external server it may be lost
  int reclaims = 1;         // of complete entries
  int forgets = 0;          // of the server: complete or not
  bool asks_peers = true;   // with an external server, too: QUERYs and repeated contributions of what is gone
  bool asks_server = true;  // every second QUERY of what is gone goes on to an external server
  bool server_timer = true;
};

class SharedBox {
 public:
  static constexpr bool kCrowded = true;
  struct Sum {
    Bits contributors = 0;
    std::uint8_t value = 0;
  };
  struct Chunk {
    Bits seen = 0;
    Bits asked = 0;  // `asking`: those for whom a peer was asked
    std::uint8_t asking = 0;
    Sum entry;  // contributors 0: there is none
    Sum server;
  };
  struct State {
    std::array<Chunk, kChunks> chunks{};
    std::uint8_t evicted = 0;
    std::uint8_t reclaimed = 0;
    std::uint8_t forgotten = 0;
    std::uint8_t wrong = 0;
  };

  SharedBox(int ranks, const SharedSetting& setting) : members_(all(ranks)), set_(setting) {}

  [[nodiscard]] const char* broken(const State& s) const {
    return s.wrong != 0 ? "a sum that does not hold each contribution once" : nullptr;
  }

  Answer contribute(State& s, int rank, int chunk, bool room) const {
    Chunk& c = s.chunks[chunk];
    const Bits own = bit(rank);
    const bool everybody = c.asking != 0 || c.seen == members_;
    const bool duplicate = c.asking != 0 || (c.seen & own) != 0;
    c.seen |= own;
    const bool last = !everybody && c.seen == members_;
    if (c.entry.contributors != 0) {
      if (c.entry.contributors == members_) return {Said::kResult, own, 0};
      if ((c.entry.contributors & own) != 0) return {};
      if (duplicate) return serve(s, chunk, {own, once(own)});
      add(c.entry, {own, once(own)});
      if (c.entry.contributors == members_) return finish(s, c.entry);
      return last ? serve(s, chunk, std::exchange(c.entry, Sum{})) : Answer{};
    }
    if (everybody && !known(c) && (!set_.external || set_.asks_peers)) {
      const bool before = (c.asked & own) != 0;
      c.asking = 1;
      c.asked |= own;
      const Answer served = before ? serve(s, chunk, {own, once(own)}) : Answer{};
      return served.said == Said::kNothing ? Answer{Said::kAskPeer} : served;
    }
    if (duplicate || last || known(c) || !room) return serve(s, chunk, {own, once(own)});
    c.entry = {own, once(own)};
    return {};
  }

  Answer query(State& s, int rank, int chunk) const {
    const Chunk& c = s.chunks[chunk];
    if (c.entry.contributors == members_) return {Said::kResult, bit(rank), 0};
    if (!set_.external && c.server.contributors == members_) return {Said::kResult, bit(rank), 0};
    const bool everybody = c.asking != 0 || c.seen == members_;
    if (everybody && c.entry.contributors == 0 && !known(c) && (!set_.external || set_.asks_peers))
      return {Said::kAskPeer};
    const Bits at = static_cast<Bits>(c.entry.contributors | c.server.contributors);
    return {Said::kWaiting, bit(rank), set_.external ? c.seen : at};
  }

  [[nodiscard]] bool asks_server() const { return set_.external && set_.asks_server; }
  // What it has made it tells again; of a rank that it lacks RESEND brings the contribution.
  Answer ask_server(State& s, int rank, int chunk) const {
    const Sum& held = s.chunks[chunk].server;
    if (held.contributors == members_) return {Said::kResult, bit(rank), 0};
    if ((held.contributors & bit(rank)) != 0) return {};
    return serve(s, chunk, {bit(rank), once(bit(rank))});
  }

  template <class Emit>
  void moves(const State& s, const std::array<Bits, kChunks>& holders, bool quiet, Emit emit) const {
    for (int i = 0; i < kChunks; ++i) {
      const Chunk& c = s.chunks[i];
      const bool complete = c.entry.contributors == members_;
      if (complete && s.reclaimed < set_.reclaims) {
        State next = s;
        ++next.reclaimed;
        next.chunks[i].entry = {};
        emit(next, Answer{}, Step{"entry reclaimed", -1, i, false});
      }
      if (!complete && c.entry.contributors != 0) leave(s, i, emit);
      if (c.server.contributors != 0 && s.forgotten < set_.forgets) {
        State next = s;
        ++next.forgotten;
        next.chunks[i].server = {};
        emit(next, Answer{}, Step{"server forgets", -1, i, false});
      }
      if (quiet && set_.external && set_.server_timer) time_out(s, i, holders[i], emit);
    }
  }

 private:
  static void add(Sum& to, Sum more) {
    to.contributors |= more.contributors;
    to.value = static_cast<std::uint8_t>(to.value + more.value);
  }
  // What an external server knows it alone does.
  [[nodiscard]] bool known(const Chunk& c) const { return !set_.external && c.server.contributors != 0; }

  Answer finish(State& s, const Sum& sum) const {
    if (sum.value != once(members_)) s.wrong = 1;
    return {Said::kResult, members_, 0};
  }
  Answer serve(State& s, int chunk, Sum sum) const {
    Chunk& c = s.chunks[chunk];
    if (c.server.contributors == members_) return {Said::kResult, sum.contributors, 0};
    if ((c.server.contributors & sum.contributors) == 0) {
      add(c.server, sum);
    } else if ((c.server.contributors & ~sum.contributors) == 0) {
      c.server = sum;
    }
    if (c.server.contributors != members_) return {};
    if (c.entry.contributors != members_) c.entry = {};
    return finish(s, c.server);
  }

  // Evicted, or swept; by then nobody can stop it.
  template <class Emit>
  void leave(const State& s, int i, Emit& emit) const {
    State next = s;
    const Sum sum = std::exchange(next.chunks[i].entry, Sum{});
    State swept = next;
    const Answer answer = serve(swept, i, sum);
    emit(swept, answer, Step{"entry swept to the server", -1, i, set_.server_timer});
    if (s.evicted >= set_.evictions || !set_.external) return;
    ++next.evicted;
    emit(next, Answer{}, Step{"entry evicted, its PARTIAL lost", -1, i, false});
  }

  // FLUSH is leave(); RESEND brings a rank's contribution, or the result of one that has it.
  template <class Emit>
  void time_out(const State& s, int i, Bits holders, Emit& emit) const {
    const Bits here = s.chunks[i].server.contributors;
    if (here == 0 || here == members_) return;
    for (Bits rest = static_cast<Bits>(members_ & ~here); rest != 0; rest &= static_cast<Bits>(rest - 1)) {
      const Bits lowest = static_cast<Bits>(rest & -rest);
      State next = s;
      const Bits brings = (holders & lowest) != 0 ? members_ : lowest;
      const Answer answer = serve(next, i, {brings, once(brings)});
      emit(next, answer, Step{"server asks for what it lacks", -1, i});
    }
    State next = s;
    next.chunks[i].server = {};
    emit(next, Answer{}, Step{"server drops what does not move", -1, i, false});
  }

  Bits members_;
  SharedSetting set_;
};

}  // namespace tally::models
