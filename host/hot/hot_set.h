#pragma once
// Which hot set this rank uses in which round, and what it must do before. Rounds are numbered alike at all
// ranks. The rules, and what breaks without each: tests/models/hot_model.h.
//
//   stable    one set, its rows are here
//   proposed  an agreement is under way, or the set it made is not in force yet; the one of before counts on. A key
//             in transition is cold: until the new set is in force for who comes, from then on for who leaves
//   adopted   the new set is in force, its rows are not here yet: this rank contributes nothing
//
// It does no input or output: the words of agreements and the rows are moved by who owns it. One thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hot/agreement.h"
#include "hot/key_set.h"
#include "hot/sketch.h"
#include "tally/error.h"

namespace tally::hot {

enum class Phase : std::uint8_t { kStable, kProposed, kAdopted };

struct HotOptions {
  Seat seat;
  // Rounds from one agreement to the next; a generation has three more, after an eighth, a quarter and half of them.
  // At least 16.
  std::uint64_t every = 64;
  std::uint64_t lead = 2;    // rounds from an agreement to its set, 1..every / 8
  std::size_t counters = 0;  // of the sketch, at least; 0: four for each key there is room for
  // ... and so many for each key of the largest batch so far. Sketches may differ: a rank's own names and weights rest on
  // its own, and what is agreed on is their sums.
  std::size_t counters_of_key = 0;
};

// What a set that comes into force changes. Rows of keys that stay have the same number, unless they moved.
struct Change {
  struct Moved {
    Key key = 0;
    std::uint32_t from = 0;
    std::uint32_t to = 0;
  };
  std::vector<Key> came;  // their rows are to be fetched from the servers
  std::vector<Key> left;  // their rows go back, before anybody's push in this round
  std::vector<Moved> moved;
};

// What this rank has of the generation before, for servers that gave rows away. Ranks tell each other their rounds;
// all go on with the largest number of them, and only who has that many brings rows.
struct Leftover {
  std::uint64_t rounds = 0;  // that have ended here
  std::vector<Key> bring;    // this rank has the rows, with what was added in these rounds
  // ... which are those of this set. What was given away under a later one is right at its server: without this rank
  // nothing was added elsewhere. (A rank that has restarted itself has no word in this.)
  std::uint32_t set = 0;
};

class HotSet {
 public:
  // Errors: a world of none or of more than 64, `every` or `lead` out of range.
  static Result<HotSet> create(const HotOptions& options);

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] std::uint64_t round() const noexcept { return round_; }
  // Of the round that this rank is in.
  [[nodiscard]] const KeySet& set() const noexcept { return *set_; }
  // Sums that rest on the set outlive it.
  [[nodiscard]] std::shared_ptr<const KeySet> shared_set() const noexcept { return set_; }

  // The keys that this rank pushes in this round, each once.
  void count(std::span<const Key> batch);

  // An agreement begins in this round, before it ends: names, take_names, take_weights. Its sums may end later.
  [[nodiscard]] bool agreement_is_due() const noexcept;
  [[nodiscard]] std::vector<std::int32_t> names();
  // sum: of all ranks' names. Returns this rank's words of the second sum.
  Result<std::vector<std::int32_t>> take_names(std::span<const std::int32_t> sum);
  Result<void> take_weights(std::span<const std::int32_t> sum);

  // This round has ended: its sums are here, and the servers have what all ranks pushed in it.
  void end_round() noexcept;
  // False: the set of the next round is not known yet.
  [[nodiscard]] bool may_begin() const noexcept;
  // The next round. A change: rows have to be moved, and then rows_are_here() said. Errors: the round before has not
  // ended, an agreement that is due was left out, or the set is not known.
  Result<std::optional<Change>> begin_round();
  // Those that came are here, those that left with their servers.
  void rows_are_here() noexcept;
  [[nodiscard]] bool may_contribute() const noexcept { return phase_ != Phase::kAdopted; }

  // After a restart of any rank. What was counted is kept.
  [[nodiscard]] Leftover leftover() const;
  // Set 0, in the round that all go on with.
  void begin_generation(std::uint64_t round) noexcept;

 private:
  enum class Step : std::uint8_t { kNone, kNames, kWeights, kKnown };

  explicit HotSet(const HotOptions& options);
  [[nodiscard]] bool comes_now() const noexcept { return step_ != Step::kNone && round_ + 1 == from_; }

  HotOptions options_;
  Sketch sketch_;
  std::shared_ptr<const KeySet> set_;
  std::shared_ptr<const KeySet> next_;
  std::shared_ptr<const KeySet> last_;  // adopted: the set before
  std::vector<Key> candidates_;
  Phase phase_ = Phase::kStable;
  Step step_ = Step::kNone;
  std::uint64_t round_ = 0;
  std::uint64_t first_ = 0;  // round of the generation
  std::uint64_t from_ = 0;   // the first round of what is agreed about
  bool ended_ = false;
};

}  // namespace tally::hot
