// tally_instructions ROW: packets of every kind go through a pipeline; those of ROW inside counted(), which
// is what run_instructions.py counts under callgrind. Prints how many they were. 8 members, 256 elements,
// window 256, 256 packets of a kind and more, all through run_burst().

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "contributions.h"
#include "pipeline/burst.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "tally/check.h"

namespace tally {
namespace {

constexpr std::uint16_t kElements = 256;
constexpr std::uint8_t kWorld = 8;
constexpr std::size_t kHeaders = bench::MemberFrames::kHeaders;
constexpr std::size_t kFrameBytes = kHeaders + std::size_t{4} * kElements;
constexpr std::size_t kFrameLines = (kFrameBytes + sizeof(jobs::Line) - 1) / sizeof(jobs::Line);

using Pipeline = pipeline::Pipeline<pipeline::Fused>;

[[gnu::noinline]] void run(Pipeline& pipeline, pipeline::ParsedBurst& parsed,
                           std::span<const pipeline::Frame> frames, std::uint64_t& of_all) noexcept {
  for (std::size_t first = 0; first < frames.size(); first += pipeline::kBurst) {
    const auto burst = frames.subspan(first, std::min(pipeline::kBurst, frames.size() - first));
    pipeline::run_burst(
        pipeline, parsed, burst, 1, [&](std::size_t from, std::size_t to) { of_all += to - from; },
        [&](std::size_t, const pipeline::Outcome& out) { of_all += out.payload_bytes; });
  }
}

[[gnu::noinline]] void counted(Pipeline& pipeline, pipeline::ParsedBurst& parsed,
                               std::span<const pipeline::Frame> frames, std::uint64_t& of_all) noexcept {
  run(pipeline, parsed, frames, of_all);
  asm volatile("");  // or the call would be a jump, and none of this function's
}

jobs::NativeJob pool_job() { return bench::make_job({.world = kWorld, .elements = kElements}); }

// The same with a ledger and an external server, and an entry for each chunk of the window.
constexpr std::uint32_t kEntries = bench::kBenchWindow;
jobs::NativeJob shared_job() {
  jobs::NativeJob job = pool_job();
  job.discipline = Discipline::kShared;
  job.slots = {0, jobs::ledger_lines(job.span, 1)};
  job.shared_slots = kEntries;
  job.server = ServerKind::kExternal;
  job.servers = 1;
  job.server_ranks[0] = {Cookie{77}, 0, job.ranks[0].binding};
  return job;
}

// ... of two boxes: to this one all send but the last rank.
jobs::NativeJob planned_job() {
  jobs::NativeJob job = shared_job();
  jobs::PlanPart part;
  part.here.fill(job.members >> 1);
  part.through = part.here;
  job.take_part(std::make_shared<const jobs::PlanPart>(part));
  return job;
}

class Scene {
 public:
  // row: which is counted.
  Scene(std::string_view row, const jobs::NativeJob& job)
      : row_(row),
        job_(job),
        memory_(job_.slots.count + jobs::shared_lines(kEntries, kElements)),
        pipeline_(
            {.core = 0,
             .box = bench::job_box(),
             .shared = jobs::shared_region(static_cast<std::uint32_t>(memory_.size()), kEntries, kElements)},
            memory_, kernels_),
        table_(jobs::JobTable().with(job_.id, std::make_shared<jobs::NativeJob>(job_))) {
    pipeline_.adopt(table_.get());
    for (std::uint16_t rank = 0; rank < kWorld; ++rank) senders_.emplace_back(job_, rank, bench::job_box());
  }

  // Contributions of the ranks [first, last) to every chunk of the window, chunk by chunk, as new sendings.
  void send(std::uint16_t first, std::uint16_t last) {
    frames_.clear();
    bytes_.assign(std::size_t{bench::kBenchWindow} * (last - first) * kFrameLines, {});
    jobs::Line* at = bytes_.data();
    for (std::uint32_t chunk = 0; chunk < bench::kBenchWindow; ++chunk) {
      for (std::uint16_t rank = first; rank < last; ++rank, at += kFrameLines) {
        auto* const data = reinterpret_cast<std::byte*>(at);
        bench::write_values(data + kHeaders, kElements, [&](std::size_t k) {
          return static_cast<std::int32_t>(k) - 100 * rank + static_cast<std::int32_t>(chunk);
        });
        senders_[rank].write(std::span<std::byte, kHeaders>(data, kHeaders), Chunk{chunk},
                             kernels_.sums(data + kHeaders, kElements), kernels_);
        frames_.push_back({.data = data,
                           .length = kFrameBytes,
                           .capacity = kFrameLines * sizeof(jobs::Line),
                           .port = PortIndex{0},
                           .checksum_good = true});
      }
    }
  }
  // Of those the last `count`, once more as they are.
  void keep_last(std::size_t count) {
    frames_.erase(frames_.begin(), frames_.end() - static_cast<std::ptrdiff_t>(count));
  }
  // Runs them. verdict: what becomes of each; of a drop, why.
  void take(std::string_view row, Verdict verdict, Drop drop = {}) {
    const auto taken = [&] {
      const JobCounters& c = pipeline_.counters(job_.id);
      return verdict == Verdict::kDrop ? c.drops[static_cast<std::size_t>(drop)].get() : c.of(verdict);
    };
    const std::uint64_t before = taken();
    (row == row_ ? counted : run)(pipeline_, parsed_, frames_, of_all_);
    TALLY_CHECK(taken() - before == frames_.size(), "a packet became something else");
    if (row == row_) std::printf("%zu\n", frames_.size());
  }

 private:
  std::string_view row_;
  const kernels::Kernels& kernels_ = kernels::best_kernels();
  jobs::NativeJob job_;
  std::vector<jobs::Line> memory_;
  Pipeline pipeline_;
  std::shared_ptr<const jobs::JobTable> table_;
  std::vector<bench::MemberFrames> senders_;
  std::vector<jobs::Line> bytes_;
  std::vector<pipeline::Frame> frames_;
  pipeline::ParsedBurst parsed_;
  std::uint64_t of_all_ = 0;
};

}  // namespace
}  // namespace tally

int main(int argc, char** argv) {
  const std::string_view row = argc > 1 ? argv[1] : "";
  tally::Scene shared(row, tally::shared_job());
  shared.send(0, 6);
  shared.take("shared absorbed", tally::Verdict::kAbsorb);
  shared.send(6, 7);
  shared.take("", tally::Verdict::kAbsorb);
  shared.send(7, 8);
  shared.take("shared completed", tally::Verdict::kComplete);

  tally::Scene planned(row, tally::planned_job());
  planned.send(0, 6);
  planned.take("planned absorbed", tally::Verdict::kAbsorb);
  planned.send(6, 7);
  planned.take("planned left", tally::Verdict::kAbsorb);
  planned.send(7, 8);
  planned.take("planned passed on", tally::Verdict::kBypass);

  tally::Scene scene(row, tally::pool_job());
  scene.send(0, 7);
  scene.take("absorbed", tally::Verdict::kAbsorb);
  scene.keep_last(std::size_t{7} * 32);  // the register remembers 63 of a rank
  scene.take("replay", tally::Verdict::kDrop, tally::Drop::kReplay);
  scene.send(7, 8);
  scene.take("completed", tally::Verdict::kComplete);
  scene.send(3, 4);
  scene.take("repeat", tally::Verdict::kRepeat);
  return 0;
}
