#pragma once
// The place of a rack's box in the job of its parent (docs/protocol_racks.md, 18.2): who is in which epoch, and who knows it.
// The workers of a rack are one. What is said may be lost, or come late; any box may doubt, or forget all, at any moment. A
// JOIN counts until a newer one was heard, as its attempt says, and JOINED if it answers the newest that was said.

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "explorer.h"
#include "tally/check.h"

namespace tally::models {

struct SeatSetting {
  int parent_restarts = 0;  // it forgets all
  int rack_restarts = 0;    // a rack's box does; its workers come back to it
  int calls = 0;            // the parent calls all back: for another window, or as its data plane was lost
  // The rules.
  bool says_its_epoch = true;     // who doubts says the epoch that it has, also when no worker knows it yet ...
  bool begins_at_first = true;    // ... with numbers that fit its generation: else nobody reads what it says
  bool brings_what_it_was_told = true;  // ... and brings that generation also when it is called back
  bool told_after_echo = true;    // workers hear of an epoch when the parent has shown that it knows the rack in it
  bool takes_offers_back = true;  // what another epoch overtook is not told any more
};

class SeatModel {
 public:
  static constexpr int kRacks = 2, kEpochs = 8;

  enum At : std::uint8_t { kAsking, kMember, kDoubting, kRecalled };
  struct Term {
    std::uint8_t epoch = 0;  // 0: none
    std::uint8_t generation = 0;
    bool operator==(const Term&) const = default;
  };
  struct Join {
    std::uint8_t under_way = 0;
    std::uint8_t newest = 0;  // that was said
    std::uint8_t epoch = 0;
    std::uint8_t brings = 0;  // generation
  };
  struct Rack {
    std::uint8_t at = kAsking;
    Term term{};
    std::uint8_t confirmed = 0;
    std::uint8_t used = 0;    // workers were told of the term
    std::uint8_t claims = 0;  // the generation that they brought when it asked
    std::uint8_t brings = 0;  // what it says of that
    Term offer{};             // with the cores, which may be slow
    Term workers{};           // what they were told last; epoch 0: they are back
    Bits told = 0;            // epochs that they ever were
    std::uint8_t forgot = 0;  // an epoch, and has no other yet
    Join late{};              // said and not heard yet
    Term answer{};            // JOINED(running), to its newest JOIN
    // At the parent.
    std::uint8_t joined = 0;
    std::uint8_t reported = 0;
    std::uint8_t known = 0;  // has shown that it knows the epoch
  };
  struct State {
    std::array<Rack, kRacks> racks{};
    Term term{};  // the parent's; without epoch it forms
    std::uint8_t epochs = 0, generations = 0;  // drawn so far
    std::uint8_t parent_restarts = 0, rack_restarts = 0, calls = 0;
    std::uint8_t over = 0;  // a rack lost a generation that was new: all begin anew
    std::uint8_t wrong = 0;
  };

  explicit SeatModel(const SeatSetting& setting) : set_(setting) {}

  [[nodiscard]] State init() const {
    State s;
    s.parent_restarts = static_cast<std::uint8_t>(set_.parent_restarts);
    s.rack_restarts = static_cast<std::uint8_t>(set_.rack_restarts);
    s.calls = static_cast<std::uint8_t>(set_.calls);
    return s;
  }
  [[nodiscard]] const char* broken(const State& s) const {
    static constexpr std::array<const char*, 4> kWhat{
        nullptr, "a rack that has lost nothing is taken for one that lost its state",
        "workers meet an epoch twice, of a box that forgot the first time",
        "a generation that all racks know has ended"};
    return kWhat.at(s.wrong);
  }
  [[nodiscard]] bool reached(const State& s) const {
    return s.over != 0 || (s.term.epoch != 0 && std::ranges::all_of(s.racks, [&](const Rack& rack) {
                             return rack.used != 0 && rack.term == s.term && rack.workers == s.term;
                           }));
  }

  template <class Emit>
  void successors(const State& s, Emit emit) const {
    if (s.over != 0) return;
    const auto step = [&](const Step& what, auto act) {
      State next = s;
      act(next);
      emit(next, what);
    };
    for (int r = 0; r < kRacks; ++r) of_rack(s, r, step);
    if (s.parent_restarts != 0) {
      step({"the parent restarts", -1, -1, false}, [](State& x) {
        --x.parent_restarts;
        form(x);
      });
    }
    if (s.calls != 0 && s.term.epoch != 0) {
      step({"the parent calls all back", -1, -1, false}, [](State& x) {
        --x.calls;
        form(x);
      });
    }
  }

 private:
  template <class Do>
  void of_rack(const State& s, int r, Do step) const {
    const Rack& rack = s.racks[r];
    const bool asks = rack.at == kAsking || rack.at == kDoubting;
    if (asks) {
      step({"JOIN", r}, [&](State& x) {
        say(x.racks[r]);
        hear(x, r);
        take_answer(x, r);
      });
      step({"JOIN, which is late", r, -1, false}, [&](State& x) { say(x.racks[r]); });
    }
    if (rack.late.under_way != 0)
      step({"a JOIN comes late", r, -1, false}, [&](State& x) { hear(x, r); });
    if (asks && rack.answer.epoch != 0)
      step({"JOINED comes late", r, -1, false}, [&](State& x) { take_answer(x, r); });
    if (rack.at == kMember || rack.at == kRecalled) {
      step({"HEARTBEAT", r}, [&](State& x) { beat(x, r, true); });
      step({"HEARTBEAT, and no echo comes", r, -1, false}, [&](State& x) { beat(x, r, false); });
    }
    // To what it says in an epoch that is over, or unasked.
    if ((rack.at == kMember || rack.at == kDoubting) && rack.term != s.term)
      step({"REJECT", r}, [&](State& x) { call(x.racks[r]); });
    if (rack.at == kMember) {
      step({"doubts", r, -1, false}, [&](State& x) {
        Rack& me = x.racks[r];
        turn_to(me, kDoubting);
        me.brings = set_.says_its_epoch || me.used != 0 ? me.term.generation : me.claims;
      });
    }
    of_workers(s, r, step);
    if (s.rack_restarts != 0) {
      step({"the box of a rack restarts", r, -1, false}, [&](State& x) {
        --x.rack_restarts;
        Rack& me = x.racks[r];
        me.forgot = me.forgot != 0 || me.term.epoch != 0;
        me.term = me.offer = {};
        me.workers.epoch = me.used = 0;
        ask(me);
      });
    }
  }

  template <class Do>
  void of_workers(const State& s, int r, Do step) const {
    const Rack& rack = s.racks[r];
    const bool in_epoch = rack.at == kMember || rack.at == kDoubting;
    if (rack.workers.epoch != 0 && rack.used == 0)
      step({"its workers come back", r}, [&](State& x) { x.racks[r].workers.epoch = 0; });
    if (rack.at == kRecalled && rack.workers.epoch == 0)
      step({"asks anew", r}, [&](State& x) { ask(x.racks[r]); });
    const bool shown = rack.confirmed != 0 || !set_.told_after_echo;
    const bool fits = rack.workers.generation == rack.claims;
    if (rack.at == kMember && shown && rack.used == 0 && rack.workers.epoch == 0 && rack.offer.epoch == 0) {
      step({"offers", r}, [&](State& x) {
        Rack& me = x.racks[r];
        fits ? void(me.offer = me.term) : ask(me);
      });
    }
    if (rack.offer.epoch != 0 && in_epoch) {
      step({"tells its workers", r}, [&](State& x) {
        Rack& me = x.racks[r];
        const Term told = std::exchange(me.offer, {});
        if (has(me.told, told.epoch)) x.wrong = 2;
        me.workers = told;
        me.claims = me.brings = me.term.generation;
        me.told |= bit(told.epoch);
        me.used = 1;
      });
    }
  }

  void say(Rack& rack) const {
    const bool says_it = rack.at == kDoubting && (set_.says_its_epoch || rack.used != 0);
    rack.late = {1, 1, says_it ? rack.term.epoch : std::uint8_t{0}, rack.brings};
    rack.answer = {};
  }
  // No answer to what it said before counts any more.
  static void turn_to(Rack& rack, At at) {
    rack.at = at;
    rack.answer = {};
    rack.late.newest = 0;
  }
  void ask(Rack& rack) const {
    const std::uint8_t brought = rack.workers.generation;
    const bool untold = rack.term.epoch != 0 && rack.used == 0 && brought == rack.claims;
    rack.brings = untold && set_.brings_what_it_was_told ? rack.term.generation : brought;
    rack.claims = brought;
    turn_to(rack, kAsking);
    rack.used = rack.confirmed = 0;
  }
  void call(Rack& rack) const {
    turn_to(rack, kRecalled);
    rack.offer = {};
    if (rack.used != 0) rack.workers.epoch = 0;
  }
  void take_answer(State& s, int r) const {
    Rack& rack = s.racks[r];
    const Term told = std::exchange(rack.answer, {});
    if (told.epoch == 0) return;
    turn_to(rack, kMember);
    rack.forgot = 0;
    if (told == rack.term) return;
    rack.term = told;
    rack.confirmed = rack.used = 0;
    if (set_.takes_offers_back) rack.offer = {};
  }

  // The parent.
  static void form(State& s) {
    s.term = {};
    for (Rack& rack : s.racks) rack.joined = rack.known = rack.reported = 0;
  }
  void hear(State& s, int r) const {
    const Join said = std::exchange(s.racks[r].late, {});
    join(s, r, said);
    if (said.newest == 0) s.racks[r].answer = {};
  }
  void join(State& s, int r, const Join& said) const {
    Rack& rack = s.racks[r];
    const bool unreadable = said.brings != rack.claims && !set_.begins_at_first;
    if (unreadable) return;
    if (s.term.epoch == 0) return place(s, r, said);
    const bool forgot = rack.known != 0 && said.epoch != s.term.epoch;
    const bool unheard = rack.known == 0 && said.brings == rack.reported;
    const bool ours = said.brings == s.term.generation;
    if ((ours && !forgot) || unheard) {
      if (said.brings != rack.reported) rack.known = 1;
      rack.reported = said.brings;
      rack.answer = s.term;
      return;
    }
    if (rack.forgot == 0) s.wrong = 1;
    if (!ours) {
      s.over = 1;
      return;
    }
    form(s);
    place(s, r, said);
  }
  void place(State& s, int r, const Join& said) const {
    s.racks[r].joined = 1;
    s.racks[r].known = 0;
    s.racks[r].reported = said.brings;
    if (!std::ranges::all_of(s.racks, [](const Rack& rack) { return rack.joined != 0; })) return;
    const std::uint8_t common = s.racks[0].reported;
    const bool goes_on =
        common != 0 && std::ranges::all_of(s.racks, [=](const Rack& rack) { return rack.reported == common; });
    const std::uint8_t known = s.racks[0].term.generation;
    const bool all_know =
        known != 0 && std::ranges::all_of(s.racks, [=](const Rack& rack) { return rack.term.generation == known; });
    if (!goes_on && all_know) s.wrong = 3;
    ++s.epochs;
    TALLY_CHECK(s.epochs < kEpochs, "the model's state has room for it");
    s.term = {s.epochs, goes_on ? common : ++s.generations};
    for (Rack& rack : s.racks)
      if (rack.late.under_way == 0) rack.answer = s.term;  // else another JOIN is its newest
  }
  void beat(State& s, int r, bool echoed) const {
    Rack& rack = s.racks[r];
    if (rack.term != s.term || s.term.epoch == 0) return;
    rack.known = 1;
    if (echoed && rack.at == kMember) rack.confirmed = 1;
  }

  SeatSetting set_;
};

}  // namespace tally::models
