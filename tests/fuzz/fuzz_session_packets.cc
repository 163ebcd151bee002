// A sequence of packets of SwitchML's clients to two sessions, one of each tsi rule: the staged execution
// does the same as the fused one, down to every register and return path; a result is the sum of what its
// entry took; a packet changes one counter, and one that is refused no slot memory.

#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "agree.h"
#include "fuzz_input.h"
#include "heap_frame.h"
#include "jobs.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "pipeline/session_pool.h"
#include "pipeline/staged.h"
#include "session_frames.h"
#include "tally/check.h"

namespace tally {
namespace {

constexpr std::uint32_t kSlots = 2;
constexpr std::uint32_t kMostLines = 2 * kSlots * 2 * (3 + 256 / 64) + 1;
constexpr std::size_t kHeaders = 14 + 20 + 8 + switchml::kHeaderBytes;
constexpr int kMostPackets = 400;

using Values = std::vector<std::uint32_t>;

Values values_of(std::span<const std::byte> from) {
  Values values(from.size() / 4);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Be<std::uint32_t> value;
    std::memcpy(&value, from.data() + 4 * i, sizeof value);
    values[i] = value.host();
  }
  return values;
}

// Whose packet it was.
const jobs::SessionJob& session_of(const pipeline::Outcome& out) {
  return static_cast<const jobs::SessionJob&>(*out.job);
}

class SessionSequence {
 public:
  explicit SessionSequence(FuzzInput in) : in_(in) {
    std::uint32_t line = 1;
    for (std::uint16_t id = 1; id <= 2; ++id) {
      const std::uint8_t how = in_.byte();
      constexpr std::array<std::uint8_t, 4> kWorlds{2, 1, 3, 20};  // paths in one line, or in two
      jobs_.push_back(make_session({.id = id,
                                    .world = kWorlds[how & 3],
                                    .payload = static_cast<std::uint16_t>((how & 4) != 0 ? 256 : 128),
                                    .slots = kSlots,
                                    .tsi = id == 1 ? jobs::TsiRule::kPacket : jobs::TsiRule::kOpaque,
                                    .home = static_cast<std::uint8_t>((how & 0xF0) == 0xF0 ? 1 : 0),
                                    .first_line = line}));
      line += jobs_.back().slots.count;
      table_ = table_->with(jobs_.back().id, std::make_shared<const jobs::SessionJob>(jobs_.back()));
    }
    fused_.adopt(table_.get());
    staged_.adopt(table_.get());
  }

  void run() {
    for (int i = 0; i < kMostPackets && !in_.empty(); ++i) {
      pass(frame());
      check_states();
      for (const jobs::SessionJob& job : jobs_) check_registers(job);
    }
  }

 private:
  // Of a member, near what it sent last; sometimes with a byte that is not as it was.
  Bytes frame() {
    const std::uint8_t how = in_.byte();
    const std::uint8_t which = in_.byte();
    const jobs::SessionJob& job = jobs_[how & 1];
    if ((how & 0x20) != 0) ++number_;
    if ((how & 0x40) != 0) now_ += in_.byte() * 10 * kMillisecond;
    now_ += kMillisecond;
    Bytes made =
        session_frame(job,
                      {.rank = (which >> 3 & 0x1FU) % job.world,
                       .slot = how >> 2 & 1U,
                       .set = how >> 1 & 1U,
                       .job_number = static_cast<std::uint8_t>((how & 0x10) != 0 ? in_.byte() : number_),
                       .tsi = which & 7U,
                       .value = static_cast<std::int32_t>(in_.byte() * 0x01010101U),
                       .exponent0 = static_cast<std::int8_t>(which),
                       .exponent1 = static_cast<std::int8_t>(how),
                       .udp_source = static_cast<std::uint16_t>(4000 + (which & 3))},
                      test_box());
    port_ = job.ranks[(which >> 3 & 0x1FU) % job.world].binding.port;
    if ((how & 8) != 0) {
      const std::size_t at = in_.byte() % kHeaders;
      made[at] ^= std::byte{in_.byte()};
    }
    if ((how & 0x88) == 0x88) made.resize(made.size() - in_.byte() % made.size());
    return made;
  }

  void pass(const Bytes& wire) {
    HeapFrame f(wire);
    HeapFrame s(wire);
    const std::vector<jobs::Line> before(memory_.region().begin(), memory_.region().end());
    const std::uint64_t packets = all_packets();
    TALLY_CHECK(template_agrees_with_gates(fused_, f.frame(port_, false)), "template and gates agree");
    const pipeline::Outcome x = fused_.process(f.frame(port_, false), now_);
    const pipeline::Outcome y = staged_.process(s.frame(port_, false), now_);
    TALLY_CHECK(difference(x, y).empty(), "both executions agree");
    TALLY_CHECK(same_bytes(f.buffer(), s.buffer()), "same bytes leave");
    TALLY_CHECK(all_packets() == packets + 1, "one packet, one counter");
    const bool taken = x.verdict == Verdict::kAbsorb || x.verdict == Verdict::kComplete;
    const bool ours = taken || x.verdict == Verdict::kRepeat;
    if (!ours && x.drop != Drop::kDuplicate) {
      TALLY_CHECK(
          std::memcmp(before.data(), memory_.region().data(), before.size() * sizeof(jobs::Line)) == 0,
          "slot memory of a packet that stores nothing");
    }
    if (!ours) return;
    const auto at = static_cast<std::size_t>(x.payload - f.buffer().data()) + switchml::kHeaderBytes;
    judge(x, values_of(std::span(wire).subspan(at, 4U * x.job->elements)),
          values_of(f.buffer().subspan(at, 4U * x.job->elements)));
    check_other_entries(x, before);
  }

  // came: with the packet; left: in its place now.
  void judge(const pipeline::Outcome& out, const Values& came, const Values& left) {
    const std::uint32_t line = entry_of(out);
    auto& [sum, from] = sums_[line];
    if (out.verdict == Verdict::kRepeat) {
      TALLY_CHECK(std::has_single_bit(out.ranks) && left == sum, "the same result again, for one");
    } else if (out.verdict == Verdict::kComplete && out.job->world == 1) {
      TALLY_CHECK(left == came, "alone, a member gets what it sent");
      sum = came;
    } else if (out.verdict == Verdict::kAbsorb && contributors(session_of(out), line) == out.ranks) {
      sum = came;
      from = out.ranks;
    } else {
      const bool last = out.verdict == Verdict::kComplete;
      TALLY_CHECK(last || (from & out.ranks) == 0, "nobody is in it twice");
      TALLY_CHECK(!last || std::popcount(from) + 1 == out.job->world, "everybody is in it");
      from |= last ? 0 : out.ranks;
      TALLY_CHECK(sum.size() == came.size(), "added to what somebody began");
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += came[i];
    }
    if (out.verdict != Verdict::kAbsorb) {
      TALLY_CHECK(left == sum, "a result is the sum of what its entry took");
      check_paths(out);
    }
    if (out.verdict == Verdict::kComplete)
      TALLY_CHECK(out.ranks == out.job->members && contributors(session_of(out), line) == out.job->members,
                  "a result is of all members, for all members");
  }

  void check_paths(const pipeline::Outcome& out) {
    for (std::uint64_t left = out.ranks; left != 0; left &= left - 1) {
      const auto rank = static_cast<std::size_t>(std::countr_zero(left));
      const pipeline::ReturnPath& a = fused_.return_paths()[rank];
      const pipeline::ReturnPath& b = staged_.return_paths()[rank];
      TALLY_CHECK(a.udp_port == b.udp_port && a.port == b.port, "return paths");
      TALLY_CHECK(raw(a.port) == raw(out.job->ranks[rank].binding.port), "back by the port it came in by");
    }
  }

  // With tsi: opaque the head of set 0 is that of its slot's other set, too.
  void check_other_entries(const pipeline::Outcome& out, const std::vector<jobs::Line>& before) {
    const jobs::SessionJob& job = session_of(out);
    const std::uint32_t lines = jobs::session_entry_lines(job.world, job.payload);
    const std::uint32_t entry = entry_of(out);
    const std::uint32_t head = job.tsi == jobs::TsiRule::kOpaque ? head_of(job, entry) : entry;
    for (std::uint32_t line = 0; line < before.size(); ++line) {
      if (line - entry < lines || line == head) continue;
      TALLY_CHECK(std::memcmp(&before[line], &memory_.region()[line], sizeof(jobs::Line)) == 0,
                  "another entry");
    }
  }

  void check_registers(const jobs::SessionJob& job) {
    std::uint32_t filling = 0;
    for (std::uint32_t entry = 0; entry < 2 * kSlots; ++entry) {
      const std::uint32_t line = pipeline::session_line(job, entry / 2, entry % 2);
      check<pipeline::HeadReg>(line);
      check<pipeline::OwnerReg>(line);
      check<pipeline::OperationReg>(line);
      check<pipeline::ExponentReg>(line);
      check<pipeline::Exponent1Reg>(line);
      for (std::uint32_t r = 0; r < job.world; ++r)
        check<pipeline::PathReg>((line + 1) * jobs::kPathsPerLine + r);
      const pipeline::Head head = fused_.execution().head(line);
      if (job.tsi == jobs::TsiRule::kPacket)
        filling += head.tag != 0 && head.contributors != job.members ? 1 : 0;
    }
    TALLY_CHECK(fused_.state(job.id).occupancy == filling, "occupancy is the number of filling entries");
  }
  template <class R>
  void check(std::uint32_t index) {
    const auto a = fused_.execution().template peek<R>(index);
    const auto b = staged_.execution().template peek<R>(index);
    TALLY_CHECK(std::memcmp(&a, &b, sizeof a) == 0, "registers");
  }

  void check_states() {
    for (std::uint16_t id = 0; id <= 2; ++id) {
      const pipeline::JobState& a = fused_.state(JobId{id});
      const pipeline::JobState& b = staged_.state(JobId{id});
      TALLY_CHECK(a.occupancy == b.occupancy && a.overflows == b.overflows && a.last_seen == b.last_seen,
                  "states");
      TALLY_CHECK(fused_.counters(JobId{id}) == staged_.counters(JobId{id}), "counters");
    }
  }

  [[nodiscard]] std::uint64_t all_packets() {
    std::uint64_t packets = 0;
    for (std::uint16_t id = 0; id <= 2; ++id) packets += fused_.counters(JobId{id}).packets();
    return packets;
  }
  [[nodiscard]] static std::uint32_t entry_of(const pipeline::Outcome& out) {
    switchml::PacketHeader h;
    std::memcpy(&h, out.payload, sizeof h);
    const std::uint32_t index = h.pool_index.host();
    return pipeline::session_line(session_of(out), index & 0x7FFF, index >> 15);
  }
  [[nodiscard]] static std::uint32_t head_of(const jobs::SessionJob& job, std::uint32_t line) {
    const std::uint32_t lines = 2 * jobs::session_entry_lines(job.world, job.payload);
    return line - (line - job.slots.first) % lines;
  }
  [[nodiscard]] std::uint64_t contributors(const jobs::SessionJob& job, std::uint32_t line) {
    if (job.tsi == jobs::TsiRule::kPacket) return fused_.execution().head(line).contributors;
    const std::uint32_t head = head_of(job, line);
    return fused_.execution().head(head).contributors >> (line == head ? 0 : 32) & 0xFFFF'FFFF;
  }

  FuzzInput in_;
  std::vector<jobs::SessionJob> jobs_;
  std::shared_ptr<const jobs::JobTable> table_ = std::make_shared<jobs::JobTable>();
  SlotMemory memory_{2 * kMostLines};
  pipeline::Pipeline<pipeline::Fused> fused_{
      {.core = 0, .box = test_box()}, memory_.region(), kernels::best_kernels()};
  pipeline::Pipeline<pipeline::Staged> staged_{
      {.core = 0, .box = test_box()}, memory_.region(), kernels::best_kernels()};
  std::map<std::uint32_t, std::pair<Values, std::uint64_t>>
      sums_;  // by line: of what an entry took, and of whom
  PortIndex port_{};
  std::uint8_t number_ = 0;
  TimeNs now_ = kSecond;
};

}  // namespace
}  // namespace tally

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tally::SessionSequence({data, size}).run();
  return 0;
}
