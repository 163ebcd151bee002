#pragma once
// A switch core with a small shared region and the embedded server, and what comes out of it. For tests that
// look at one rule each: a contribution of rank r to chunk c is 16 times value_of(r, c).

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "frames.h"
#include "jobs.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "pipeline/staged.h"

namespace tally {

inline std::int32_t value_of(std::uint32_t rank, Chunk chunk) {
  return static_cast<std::int32_t>((rank + 1) * 1000 + raw(chunk) % 1000);
}

struct Sent {
  std::uint8_t priority = 0;
  std::uint8_t flags = 0;
  std::uint32_t total = 0;
  bool corrupt = false;        // one bit of a value flips, and the port does not see it
  std::uint32_t sequence = 0;  // as ContributionSpec::sequence
};

template <class Exec>
class SharedCore : public testing::Test {
 protected:
  static constexpr std::uint32_t kElements = 32;    // of an entry; jobs here use 16 unless they say so
  static constexpr std::uint32_t kOwnLines = 1024;  // in front of the shared region

  // server_states: what the server can hold; 0: it forgets everything at once.
  void start(std::uint32_t entries, std::uint32_t server_states = 64) {
    const auto lines = static_cast<std::uint32_t>(kOwnLines + jobs::shared_lines(entries, kElements));
    region_ = jobs::shared_region(lines, entries, kElements);
    memory_ = std::make_unique<SlotMemory>(lines);
    server_ = std::make_unique<SlotMemory>(server_states * jobs::entry_lines(kElements));
    pipeline_ = std::make_unique<pipeline::Pipeline<Exec>>(
        pipeline::PipelineOptions{
            .core = 0, .box = test_box(), .shared = region_, .server = server_->region()},
        memory_->region(), kernels::best_kernels());
  }
  // Puts a row into the table. Ids 1, 2, ... have their own epochs and ledgers.
  jobs::NativeJob publish(JobSpec spec) {
    spec.epoch += static_cast<std::uint32_t>(spec.id) << 16;
    spec.generation += spec.id;
    spec.first_line = (spec.id - 1U) * 64;
    spec.shared_slots = region_.entries;
    const jobs::NativeJob job = make_job(spec);
    cap(job, spec.cap);
    adopt(table_->with(job.id, std::make_shared<const jobs::NativeJob>(job)));
    members_[raw(job.epoch)] = job.members;
    return job;
  }
  jobs::NativeJob shared_job(JobSpec spec) {
    spec.discipline = Discipline::kShared;
    return publish(spec);
  }
  void cap(const jobs::NativeJob& job, std::uint32_t entries) { (*caps_)[raw(job.id)] = entries; }
  void remove(const jobs::NativeJob& job) { adopt(table_->with(job.id, {})); }
  void adopt(std::shared_ptr<const jobs::JobTable> next) {
    pipeline_->adopt(next.get());
    table_ = std::move(next);
  }

  pipeline::Outcome send(const jobs::NativeJob& job, std::uint32_t rank, Chunk chunk, const Sent& how = {}) {
    Bytes datagram = make_contribution(job, {.rank = Rank{static_cast<std::uint16_t>(rank)},
                                             .chunk = chunk,
                                             .values = std::vector<std::int32_t>(16, value_of(rank, chunk)),
                                             .flags = how.flags,
                                             .total = how.total,
                                             .priority = how.priority,
                                             .sequence = how.sequence});
    if (how.corrupt) datagram[kHeaderBytes + 3] ^= std::byte{1};
    return take(job, rank, datagram);
  }
  pipeline::Outcome take(const jobs::NativeJob& job, std::uint32_t rank, const Bytes& datagram) {
    const jobs::Binding& from = job.ranks[rank].binding;
    frame_.emplace(wrap(datagram, from, test_box(), kBasePort), from.port, true, 4 * kMaxElements);
    return pipeline_->process(frame_->frame(), now_);
  }
  // All of an aged entry's way; nothing: none was found in a whole round.
  std::optional<pipeline::Outcome> sweep() {
    for (std::uint32_t i = 0; i <= region_.entries; ++i) {
      if (!pipeline_->aged(now_)) continue;
      swept_.resize(kHeaderBytes + 4 * kMaxElements);
      return pipeline_->sweep(swept_, now_);
    }
    return std::nullopt;
  }

  // The RESULT is for `ranks` of the job, and each value is the sum over all members.
  void expect_result(const pipeline::Outcome& out, Verdict verdict, const jobs::NativeJob& job, Chunk chunk,
                     std::uint64_t ranks) {
    ASSERT_EQ(out.verdict, verdict) << name_of(out.verdict) << " " << name_of(out.drop);
    ASSERT_NE(out.job, nullptr);
    EXPECT_EQ(out.job->id, job.id);
    EXPECT_EQ(out.ranks, ranks);
    const Header h = header_of({out.payload, kHeaderBytes});
    EXPECT_EQ(h.chunk_id(), chunk);
    EXPECT_EQ(h.contributors.host(), job.members);
    EXPECT_EQ(h.cookie.host(), raw(job.result_cookie));
    std::uint32_t sum = 0;
    for (std::uint32_t r = 0; r < job.world; ++r) sum += static_cast<std::uint32_t>(value_of(r, chunk));
    ASSERT_EQ(out.payload_bytes, kHeaderBytes + 4U * 16);
    for (std::size_t i = 0; i < 16; ++i) {
      Be<std::uint32_t> value;
      std::memcpy(&value, out.payload + kHeaderBytes + 4 * i, sizeof value);
      EXPECT_EQ(value.host(), sum);
    }
  }

  // Which chunks before it a RESULT says to be finished.
  [[nodiscard]] static std::uint32_t before(const pipeline::Outcome& out) {
    const Header h = header_of({out.payload, kHeaderBytes});
    EXPECT_EQ(h.type, PacketType::kResult);
    return h.before();
  }

  [[nodiscard]] const pipeline::JobState& state(const jobs::NativeJob& job) const {
    return pipeline_->state(job.id);
  }
  [[nodiscard]] std::uint32_t occupancy(const jobs::NativeJob& job) const { return state(job).occupancy; }
  [[nodiscard]] const server::MergeCounters& server() const { return pipeline_->server(); }
  [[nodiscard]] pipeline::Head head(std::uint32_t entry) {
    return pipeline_->execution().head(region_.line_of(entry));
  }
  template <class R>
  [[nodiscard]] auto peek(std::uint32_t index) {
    return pipeline_->execution().template peek<R>(index);
  }
  [[nodiscard]] pipeline::LedgerRow row(const jobs::NativeJob& job, Chunk chunk) {
    return peek<pipeline::LedgerReg>(job.slots.first * jobs::kLedgerRowsPerLine + raw(chunk) % job.span);
  }
  // The chunk in the entry, if it is the job's.
  [[nodiscard]] bool holds(std::uint32_t entry, const jobs::NativeJob& job, Chunk chunk) {
    const pipeline::Head h = head(entry);
    return h.tag == raw(job.epoch) && h.chunk == raw(chunk);
  }
  // The job's filling entries, counted by their registers.
  [[nodiscard]] std::uint32_t counted(JobId id) {
    std::uint32_t n = 0;
    for (std::uint32_t i = 0; i < region_.entries; ++i) {
      const pipeline::Head h = head(i);
      if (h.tag == 0 || h.contributors == members_.at(h.tag)) continue;
      n += peek<pipeline::OwnerReg>(region_.line_of(i)).job == raw(id) ? 1 : 0;
    }
    return n;
  }

  jobs::SharedRegion region_;
  std::unique_ptr<SlotMemory> memory_;
  std::unique_ptr<SlotMemory> server_;
  std::unique_ptr<pipeline::Pipeline<Exec>> pipeline_;
  std::shared_ptr<jobs::SharedCaps> caps_ = std::make_shared<jobs::SharedCaps>();
  std::shared_ptr<const jobs::JobTable> table_ = std::make_shared<jobs::JobTable>(caps_);
  std::map<std::uint32_t, std::uint64_t> members_;  // of each epoch there ever was
  std::optional<ReceivedFrame> frame_;
  Bytes swept_;
  TimeNs now_ = kSecond;
};

using BothExecutions = testing::Types<pipeline::Fused, pipeline::Staged>;
inline constexpr std::uint8_t kClass1 = 64;
inline constexpr std::uint8_t kClass3 = 192;

}  // namespace tally
