#pragma once
// What protocol_box.md says a core does with the packets of one job of the `pool` discipline, written a
// second time: an entry is a list of contributions and a result is computed from the whole list at its end.
// No registers, no running sums, no code of the pipeline.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "jobs/job_table.h"
#include "pipeline/job_state.h"
#include "tally/counters.h"
#include "tally/one_writer.h"
#include "tally/time.h"

namespace tally {

// A contribution as its sender made it. `corrupt`: one bit of a value flips on the way to the box.
struct Offered {
  Rank rank{};
  Chunk chunk{};
  jobs::Shape shape;
  std::int8_t exponent = 0;
  bool overflow = false;
  bool zero = false;      // the values are 0, and left out
  bool sparse = false;    // rows of zeros are left out, but for those of `kept`
  std::uint8_t kept = 0;  // bit i: row i is there, whatever it is
  bool direct = false;
  std::vector<std::int32_t> values;
  bool corrupt = false;
};

// What a RESULT must say.
struct Delivered {
  Chunk chunk{};
  jobs::Shape shape;
  std::int8_t exponent = 0;
  bool overflow = false;
  bool zero = false;
  std::vector<std::uint32_t> values;
  bool all_rows = true;  // somebody sent all of them: none is left out

  // How it is sent is no part of what it says.
  bool operator==(const Delivered& o) const {
    return chunk == o.chunk && shape == o.shape && exponent == o.exponent && overflow == o.overflow &&
           zero == o.zero && values == o.values;
  }
};

struct Expected {
  Verdict verdict = Verdict::kDrop;
  Drop drop{};
  std::optional<Delivered> result{};  // of kComplete and kRepeat
  std::uint64_t waiting = 0;          // QUERY of a filling chunk: the ranks in it
  std::optional<pipeline::EventKind> event{};
};

class PoolOracle {
 public:
  void begin(const jobs::NativeJob& job) { job_ = job; }  // also: a new epoch, entries stay
  void release() { entries_.clear(); }

  // Packets that passed header and match, on the core that owns the chunk. vouched: the port answers for it.
  Expected contribute(const Offered& p, std::uint32_t sequence, bool vouched, TimeNs now);
  // A zero run: has its sequence come already? And then what becomes of each of its contributions, in order.
  [[nodiscard]] bool is_replay(Rank rank, std::uint32_t sequence);
  Expected count(const Offered& p, bool verified, TimeNs now);
  [[nodiscard]] Expected query(Chunk chunk, std::uint32_t element_room) const;

  [[nodiscard]] std::uint32_t filling() const;
  [[nodiscard]] bool holds_corrupt(Chunk chunk) const;
  [[nodiscard]] const std::array<OneWriter<TimeNs>, kMaxRanks>& last_seen() const { return last_seen_; }
  [[nodiscard]] bool suspect() const { return suspect_chunks_ > 0; }

 private:
  struct Entry {
    Epoch epoch{};
    Chunk chunk{};
    std::vector<Offered> in;
    bool complete = false;
  };

  // Of one rank in one epoch: all that came, however long ago.
  struct Came {
    Epoch epoch{};
    std::uint32_t newest = 0;
    std::set<std::uint32_t> sequences{};
  };

  [[nodiscard]] std::uint32_t place_of(Chunk chunk) const { return raw(chunk) % (2 * job_.window); }
  [[nodiscard]] Expected settle(const Offered& p, bool verified);
  [[nodiscard]] Expected into_own(Entry& entry, const Offered& p);
  [[nodiscard]] Expected finish(Entry& entry);
  [[nodiscard]] static Delivered sum_of(const std::vector<Offered>& in);

  jobs::NativeJob job_;
  std::map<std::uint32_t, Entry> entries_;  // by chunk mod 2W
  Epoch high_epoch_{};
  Chunk high_{};
  std::array<Came, kMaxRanks> came_{};
  std::uint32_t bad_in_row_ = 0;
  std::uint32_t suspect_chunks_ = 0;
  std::array<OneWriter<TimeNs>, kMaxRanks> last_seen_{};
};

}  // namespace tally
