#pragma once
// A job over two boxes: what there is of it at a moment, and what that means. How it goes on: boxes_model.h.

#include <array>
#include <cstddef>
#include <cstdint>

#include "explorer.h"
#include "tally/check.h"

namespace tally::models {

// Whose contributions of a chunk go through box 1, and whose no box adds, whatever its way.
struct BoxesRoute {
  Bits guest = 0;
  Bits direct = 0;
};

struct BoxesSetting {
  int ranks = 3;   // at most 4
  int chunks = 1;  // at most 3
  // By chunk. Epochs have them in turn; once a member has said that the other box is gone all goes through home.
  // Box 0 is the home at first, and thinks so whenever it begins.
  std::array<std::array<BoxesRoute, 3>, 2> plans{};
  // An epoch from which on the generation is another one, and with it all values; 0: none.
  int other_generation = 0;
  // What happens, at any moment, so often.
  int plan_changes = 0;
  int home_restarts = 0;  // everything is forgotten there, and the epoch is over
  int guest_forgets = 0;  // everything, at the other box
  int cuts = 0;           // the other box says nothing to somebody for longer than the limit
  int takeovers = 0;  // the other box gets the seat, and whoever had it may not know for as long as it likes
  int strays = 0;     // somebody joins at a home though it knows of another one that takes it in
  int deaths = 0;     // the box with the seat is gone for good
  int losses = 0;
  int late = 0;  // packets that come behind any others, or twice
  bool crowded = false;
  bool timers = true;  // the boxes' sweep, the server's questions and the last resort of the workers
  // The rules.
  bool epochs_apart = true;    // boxes take contributions of their epoch only, and begin it with nothing
  bool disjoint = true;        // the server adds only what has no rank in common
  bool here_of_epoch = true;   // `here` is that of the epoch's own plan
  bool finishes_whole = true;  // a box finishes what has all members, not what has all that are here
  bool challenges = true;     // a box takes an epoch from who has spoken with it since it took the one it has
  bool remembers = false;     // ... or takes none in whose place it took another: not a rule, for comparison
  bool lost_of_epoch = true;  // the home takes LOST of its epoch only
  bool results_of_epoch = true;  // members take RESULTs of their epoch only
  bool says_lost = true;         // members tell the home of a box that has forgotten, or is gone
  bool yields = true;            // a home that hears of another one calls its members back
  bool seat_moves = true;        // that of a box that is gone
};

class BoxesWorld {
 public:
  static constexpr int kRanks = 4, kChunks = 3, kNodes = kRanks + 1, kServer = kRanks, kEpochs = 12;
  static constexpr int kBoxes = 2, kLate = 2;

  using Epochs = std::uint16_t;  // a set of them

  struct Sum {
    Bits contributors = 0;
    std::uint8_t value = 0;        // how often each rank's is in it, two bits for each
    std::uint8_t generations = 0;  // of the contributions in it
  };
  struct Row {
    Bits seen = 0;
    Sum entry;  // contributors 0: there is none
  };
  struct Box {
    std::uint8_t epoch = 0;  // its number + 1; 0: it knows none
    Bits enlisted = 0;       // members that it knows
    Epochs former = 0;
    std::array<Row, kChunks> rows{};
    // What it does as the home.
    std::uint8_t is_home = 0;  // it thinks
    Bits joined = 0;           // since the members were called back; all: its epoch runs
    std::uint8_t alone = 0;    // its plans do without the other one
    std::uint8_t filler = 0;
  };
  struct Member {
    std::uint8_t epoch = 0;  // that it entered last
    std::uint8_t running = 0;
    std::uint8_t asks = 0;      // the box that it joined at last
    std::uint8_t enlisted = 0;  // at the other box than its epoch's home, and was told so
    Bits has = 0;
  };
  enum class Kind : std::uint8_t { kNone, kContribution, kSum, kResult, kEnlist, kLost };
  struct Packet {
    Kind kind = Kind::kNone;
    std::uint8_t epoch = 0;
    std::uint8_t node = 0;  // who sent it; kResult: who gets it. kSum: by way of this box
    std::uint8_t chunk = 0;
    Sum sum;
    std::uint8_t gone = 0;   // kLost
    std::uint8_t under = 0;  // kEnlist: what the box had when it gave the challenge, as Box::epoch
  };
  struct State {
    std::array<Box, kBoxes> boxes{};
    std::array<Member, kNodes> members{};
    std::array<Sum, kChunks> server{};
    std::array<Packet, kLate> late{};
    Epochs of_box_1 = 0;       // whose home is box 1
    Epochs without = 0;        // whose plan does without the other box
    std::uint8_t epoch = 0;    // the newest: numbers are drawn, so no two homes have the same
    Bits dead = 0;             // boxes
    std::uint8_t seat = 0;     // the box that the store calls the home
    std::uint8_t reasons = 0;  // for another epoch, so far
    std::uint8_t wrong = 0, too_many = 0, given_up = 0;
    std::uint8_t plan_changes = 0, home_restarts = 0, guest_forgets = 0, cuts = 0, losses = 0, delayed = 0;
    std::uint8_t takeovers = 0, strays = 0, deaths = 0;
  };

  explicit BoxesWorld(const BoxesSetting& setting)
      : set_(setting), ranks_(all(setting.ranks)), everybody_(static_cast<Bits>(ranks_ | bit(kServer))) {
    TALLY_CHECK(set_.ranks <= kRanks && set_.chunks <= kChunks && set_.late <= kLate,
                "the model has room for it");
  }

 protected:
  static constexpr Epochs only(int epoch) { return static_cast<Epochs>(1U << epoch); }
  static constexpr bool of(Epochs epochs, int epoch) { return (epochs >> epoch & 1U) != 0; }
  [[nodiscard]] int generation(int epoch) const {
    return set_.other_generation != 0 && epoch >= set_.other_generation ? 1 : 0;
  }
  [[nodiscard]] static int home_of(const State& s, int epoch) { return of(s.of_box_1, epoch) ? 1 : 0; }
  [[nodiscard]] static int other_of(const State& s, int epoch) { return 1 - home_of(s, epoch); }
  // As a home.
  [[nodiscard]] bool runs(const State& s, int box) const {
    return s.boxes[box].is_home != 0 && s.boxes[box].joined == everybody_ && !has(s.dead, box);
  }
  [[nodiscard]] bool runs_epoch(const State& s, int epoch) const {
    const int home = home_of(s, epoch);
    return runs(s, home) && s.boxes[home].epoch == epoch + 1;
  }
  // Is it a running member of what this box runs?
  [[nodiscard]] bool is_in(const State& s, int n, int box) const {
    const Member& m = s.members[n];
    return m.running != 0 && home_of(s, m.epoch) == box && runs_epoch(s, m.epoch);
  }
  [[nodiscard]] BoxesRoute route(const State& s, int epoch, int chunk) const {
    BoxesRoute r = set_.plans[epoch % 2][chunk];
    if (of(s.without, epoch)) r.guest = home_of(s, epoch) == 1 ? ranks_ : 0;
    return r;
  }
  [[nodiscard]] int box_of(const State& s, int epoch, int rank, int chunk) const {
    return has(route(s, epoch, chunk).guest, rank) ? 1 : 0;
  }
  [[nodiscard]] Bits here(const State& s, int box, int epoch, int chunk) const {
    const BoxesRoute r = route(s, set_.here_of_epoch ? epoch : epoch + 1, chunk);
    const Bits through = box == 1 ? r.guest : static_cast<Bits>(ranks_ & ~r.guest);
    return static_cast<Bits>(through & ~r.direct);
  }
  [[nodiscard]] bool knows(const State& s, int box, int epoch, int node) const {
    return s.boxes[box].epoch == epoch + 1 && has(s.boxes[box].enlisted, node) && !has(s.dead, box);
  }

  [[nodiscard]] static Packet packet(Kind kind, int epoch, int node, int chunk, Sum sum) {
    return {kind,
            static_cast<std::uint8_t>(epoch),
            static_cast<std::uint8_t>(node),
            static_cast<std::uint8_t>(chunk),
            sum,
            0,
            0};
  }
  [[nodiscard]] static Packet packet(Kind kind, int epoch, int node, int chunk = 0) {
    return packet(kind, epoch, node, chunk, Sum{});
  }
  static constexpr std::uint8_t once(Bits ranks) {
    std::uint8_t value = 0;
    for (int r = 0; r < kRanks; ++r) value |= static_cast<std::uint8_t>((ranks >> r & 1U) << 2 * r);
    return value;
  }
  [[nodiscard]] Sum one(int rank, int epoch) const {
    return {bit(rank), once(bit(rank)), bit(generation(epoch))};
  }
  static void add(Sum& to, Sum more) {
    to.contributors |= more.contributors;
    to.value = static_cast<std::uint8_t>(to.value + more.value);
    to.generations |= more.generations;
  }

  BoxesSetting set_;
  Bits ranks_;
  Bits everybody_;
};

}  // namespace tally::models
