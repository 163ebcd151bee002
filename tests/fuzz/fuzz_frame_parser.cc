// Arbitrary bytes as a frame, against both executions of the pipeline and a fixed job table: members over
// IPv4, IPv6 and VLANs, one of several shards, one alone. First byte of the input: how the frame arrives
// (Arrival); the rest is the frame.

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "agree.h"
#include "fuzz_input.h"
#include "heap_frame.h"
#include "jobs.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "pipeline/staged.h"
#include "tally/check.h"

namespace tally {
namespace {

constexpr std::uint16_t kJobs = 4;
constexpr Chunk kCompleteChunk{5};
constexpr Chunk kFillingChunk{6};

struct Arrival {
  bool vouched = false;
  bool single_segment = true;
  bool seal = false;  // make the header's check right, wherever the header is
  std::size_t tail_room = 0;
  PortIndex port{};
};

Arrival arrival_of(std::uint8_t byte) {
  constexpr std::array<std::size_t, 4> kRooms{0, 0, 64, 9000};
  return {.vouched = (byte & 1) != 0,
          .single_segment = (byte & 2) == 0,
          .seal = (byte & 4) != 0,
          .tail_room = kRooms[byte >> 3 & 3],
          .port = PortIndex{static_cast<std::uint16_t>(byte >> 5 & 3)}};
}

jobs::Box box() {
  jobs::Box b = test_box();
  b.ipv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return b;
}

jobs::NativeJob job_of(std::uint16_t id, std::uint32_t first_line) {
  constexpr std::array<std::uint8_t, kJobs> kWorlds{2, 3, 1, 4};
  constexpr std::array<std::uint16_t, kJobs> kElements{16, 32, 16, 16};
  jobs::NativeJob job = make_job({.id = id,
                                  .epoch = 0x1000'0000U + id,
                                  .world = kWorlds[id - 1],
                                  .shards = static_cast<std::uint8_t>(id == 4 ? 3 : 1),
                                  .elements = kElements[id - 1],
                                  .first_line = first_line,
                                  .sparse = id % 2 == 0});
  for (std::uint16_t r = 0; r < job.world; ++r) {
    jobs::Binding& b = job.ranks[r].binding;
    if (id % 2 == 0) {
      b.address = {0xfd, 0,
                   0,    0,
                   0,    0,
                   0,    0,
                   0,    0,
                   0,    0,
                   0,    static_cast<std::uint8_t>(id),
                   0,    static_cast<std::uint8_t>(r + 2)};
    }
    if (id >= 3) b.vlan = static_cast<std::uint16_t>(id == 3 ? 100 : 0);
  }
  return job;
}

// Both executions, each job with a complete and a filling entry.
struct World {
  std::vector<jobs::NativeJob> jobs;
  std::shared_ptr<const jobs::JobTable> table = std::make_shared<jobs::JobTable>();
  std::unique_ptr<SlotMemory> memory;
  std::unique_ptr<pipeline::Pipeline<pipeline::Fused>> fused;
  std::unique_ptr<pipeline::Pipeline<pipeline::Staged>> staged;
  std::vector<jobs::Line> pristine;

  World() {
    std::uint32_t lines = 0;
    for (std::uint16_t id = 1; id <= kJobs; ++id) {
      jobs.push_back(job_of(id, lines));
      lines += jobs.back().slots.count;
      table = table->with(JobId{id}, std::make_shared<jobs::NativeJob>(jobs.back()));
    }
    memory = std::make_unique<SlotMemory>(lines);
    const pipeline::PipelineOptions options{.core = 0, .box = box()};
    fused = std::make_unique<pipeline::Pipeline<pipeline::Fused>>(options, memory->region(),
                                                                  kernels::best_kernels());
    staged = std::make_unique<pipeline::Pipeline<pipeline::Staged>>(options, memory->region(),
                                                                    kernels::best_kernels());
    fused->adopt(table.get());
    staged->adopt(table.get());
    for (const jobs::NativeJob& job : jobs) fill(job);
    pristine.assign(memory->region().begin(), memory->region().end());
  }

  void fill(const jobs::NativeJob& job) {
    for (std::uint16_t r = 0; r < job.world; ++r) {
      contribute(job, Rank{r}, kCompleteChunk);
      if (r == 0) contribute(job, Rank{r}, kFillingChunk);
    }
  }
  void contribute(const jobs::NativeJob& job, Rank rank, Chunk chunk) {
    const std::vector<std::int32_t> values(job.elements, static_cast<std::int32_t>(raw(rank)) + 7);
    const jobs::Binding& from = job.ranks[raw(rank)].binding;
    const Bytes datagram =
        make_contribution(job, {.rank = rank, .chunk = chunk, .values = values, .total = 500});
    HeapFrame f(frame_from(from, box(), datagram, kBasePort));
    HeapFrame s(f.buffer());
    TALLY_CHECK(fused->process(f.frame(from.port, false), 0).verdict != Verdict::kDrop, "setup");
    TALLY_CHECK(staged->process(s.frame(from.port, false), 0).verdict != Verdict::kDrop, "setup");
  }
};

struct Numbers {
  std::array<JobCounters, kJobs + 2> rows;
  std::array<pipeline::JobState, kJobs + 2> states;
  std::array<pipeline::High, kJobs + 2> high;
};

template <class Exec>
Numbers numbers_of(pipeline::Pipeline<Exec>& pipeline) {
  Numbers n;
  for (std::uint16_t id = 0; id < n.rows.size(); ++id) {
    n.rows[id] = pipeline.counters(JobId{id});
    n.states[id] = pipeline.state(JobId{id});
    if constexpr (requires(Exec & x) { x.begin(); }) pipeline.execution().begin();
    n.high[id] =
        pipeline.execution().template rmw<pipeline::HighReg>(id, [](pipeline::High& h) { return h; });
  }
  return n;
}

// A run that passed its gates is as many decisions as it names chunks.
void check_counters(const Numbers& before, const Numbers& after, const pipeline::Outcome& out,
                    std::uint64_t run) {
  std::uint64_t packets = 0;
  for (std::size_t id = 0; id < before.rows.size(); ++id) {
    packets += after.rows[id].packets() - before.rows[id].packets();
  }
  if (run != 0 && packets == static_cast<std::uint64_t>(std::popcount(run))) return;
  TALLY_CHECK(packets == 1, "one packet, one counter");
  const std::size_t row = out.job != nullptr ? raw(out.job->id) : 0;
  JobCounters expected = before.rows[row];
  if (out.verdict == Verdict::kDrop) {
    ++expected.drops[static_cast<std::size_t>(out.drop)];
  } else {
    ++expected.verdicts[static_cast<std::size_t>(out.verdict)];
  }
  TALLY_CHECK(after.rows[row] == expected, "the counter of the verdict");
}

// Nothing but the counter: neither times nor occupancy nor any register of the job.
void check_untouched(const Numbers& before, const Numbers& after) {
  for (std::size_t id = 0; id < before.states.size(); ++id) {
    const pipeline::JobState& a = before.states[id];
    const pipeline::JobState& b = after.states[id];
    TALLY_CHECK(a.occupancy == b.occupancy, "occupancy");
    TALLY_CHECK(a.last_seen == b.last_seen, "last seen");
    TALLY_CHECK(a.bad_sums_in_row == b.bad_sums_in_row && a.suspect_chunks == b.suspect_chunks, "suspect");
    TALLY_CHECK(a.overflows == b.overflows, "overflows");
    TALLY_CHECK(before.high[id].epoch == after.high[id].epoch, "high");
    TALLY_CHECK(before.high[id].chunk == after.high[id].chunk, "high");
  }
}

void check_heads(World& world) {
  for (const jobs::NativeJob& job : world.jobs) {
    for (std::uint32_t at = 0; at < job.slots.count; at += jobs::entry_lines(job.elements)) {
      const pipeline::Head a = world.fused->execution().head(job.slots.first + at);
      const pipeline::Head b = world.staged->execution().head(job.slots.first + at);
      TALLY_CHECK(a.tag == b.tag && a.chunk == b.chunk && a.contributors == b.contributors, "heads");
    }
  }
}

std::uint32_t first_line(const jobs::NativeJob& job, Chunk chunk) {
  const std::uint32_t place = raw(chunk) % (2 * job.window);
  const std::uint32_t per_version = jobs::pool_entries(job.window, job.shards) / 2;
  const std::uint32_t entry = place % job.window / job.shards + place / job.window * per_version;
  return job.slots.first + entry * jobs::entry_lines(job.elements);
}

// A packet that is obeyed may change the entries of its chunk, or those of its run, and no other line.
void check_other_entries(const World& world, const pipeline::Outcome& out, Chunk chunk, std::uint64_t run) {
  const jobs::NativeJob& job = out.native();
  const jobs::Region now = world.memory->region();
  std::vector<bool> may(now.size());
  for (std::uint32_t i = 0; i < kMostOfRun; ++i) {
    if (((run | 1) >> i & 1) == 0) continue;
    const std::uint32_t first = first_line(job, chunk + i * job.shards);
    for (std::uint32_t line = 0; line < jobs::entry_lines(job.elements); ++line) may[first + line] = true;
  }
  for (std::uint32_t line = 0; line < now.size(); ++line) {
    if (may[line]) continue;
    TALLY_CHECK(std::memcmp(&world.pristine[line], &now[line], sizeof(jobs::Line)) == 0, "another entry");
  }
}

// What a run owes leaves behind it, the same from both.
void check_owed(World& world) {
  for (std::uint32_t left = kMostOfRun; world.fused->owes() && left != 0; --left) {
    TALLY_CHECK(world.staged->owes(), "both owe");
    Bytes a(kHeaderBytes + std::size_t{4} * kMaxElements);
    Bytes b(a.size());
    const pipeline::Outcome x = world.fused->owed(a);
    const pipeline::Outcome y = world.staged->owed(b);
    TALLY_CHECK(x.verdict == Verdict::kComplete && x.payload_bytes == y.payload_bytes && same_bytes(a, b),
                "both owe the same");
  }
  TALLY_CHECK(!world.fused->owes() && !world.staged->owes(), "no more than the run named");
}

void check_same(const pipeline::Outcome& x, const pipeline::Outcome& y, const HeapFrame& f,
                const HeapFrame& s) {
  TALLY_CHECK(difference(x, y).empty(), "both executions agree");
  if (x.verdict != Verdict::kDrop) TALLY_CHECK(same_bytes(f.buffer(), s.buffer()), "same bytes leave");
}

// What the caller does with the outcome stays inside the buffers too.
void send(const pipeline::Outcome& out, const HeapFrame& frame) {
  if (out.reject) {
    std::array<std::byte, kHeaderBytes> reject{};
    pipeline::write_reject(reject, header_of({out.payload, kHeaderBytes}), out.reject_reason, Cookie{},
                           out.reject_contributors, kernels::best_kernels());
  }
  if (out.verdict == Verdict::kDrop || out.verdict == Verdict::kForward) return;
  const auto offset = static_cast<std::size_t>(out.payload - frame.buffer().data());
  TALLY_CHECK(offset + out.payload_bytes <= frame.buffer().size(), "payload inside the buffer");
  const bool relayed = out.verdict == Verdict::kRelay || out.verdict == Verdict::kTell;
  if (out.verdict != Verdict::kRepeat && !relayed) return;
  TALLY_CHECK(relayed || std::has_single_bit(out.ranks), "a stored RESULT is for one");
  const int rank = relayed ? raw(out.to) : std::countr_zero(out.ranks);
  TALLY_CHECK(rank < out.job->world, "a receiver of the job");
  const jobs::Binding& to = out.job->ranks[static_cast<unsigned>(rank)].binding;
  Bytes headers(pipeline::encapsulation_bytes(to));
  pipeline::write_encapsulation(headers, to, box(), kBasePort, {out.payload, out.payload_bytes});
}

Bytes arrived(const Arrival& arrival, std::span<const std::byte> bytes) {
  Bytes wire(bytes.begin(), bytes.end());
  if (!arrival.seal) return wire;
  HeapFrame copy(bytes);
  const pipeline::OpenedFrame opened = pipeline::open_frame(copy.frame(arrival.port, false), box());
  // The dialect switchml has shorter headers, and no check to make right.
  if (opened.payload == nullptr || opened.payload_bytes < kHeaderBytes) return wire;
  const std::size_t at = static_cast<std::size_t>(opened.payload - copy.buffer().data());
  const Be check{kernels::best_kernels().crc32c(wire.data() + at, kCheckedBytes)};
  std::memcpy(wire.data() + at + kCheckedBytes, &check, sizeof check);
  return wire;
}

void run(FuzzInput in) {
  // Kept from input to input as long as nothing touched it: making it is most of the work.
  static std::unique_ptr<World> world;
  static TimeNs now = 0;
  now += 2 * kSecond;  // REJECTs are never limited
  if (!world) world = std::make_unique<World>();

  const Arrival arrival = arrival_of(in.byte());
  const Bytes wire = arrived(arrival, in.take(20'000));
  HeapFrame f(wire, arrival.tail_room);
  HeapFrame s(wire, arrival.tail_room);
  TALLY_CHECK(template_agrees_with_gates(*world->fused,
                                         f.frame(arrival.port, arrival.vouched, arrival.single_segment)),
              "template and gates agree");
  // Before the reply is written over it.
  const pipeline::OpenedFrame opened =
      pipeline::open_frame(f.frame(arrival.port, arrival.vouched, arrival.single_segment), box());
  const bool native = opened.kind == pipeline::Kind::kNative && opened.payload_bytes >= kHeaderBytes;
  const Header sent = native ? header_of({opened.payload, kHeaderBytes}) : Header{};
  const std::uint64_t run = native && sent.type == PacketType::kZeroRun ? sent.contributors.host() : 0;
  const Numbers before = numbers_of(*world->fused);
  const Numbers staged_before = numbers_of(*world->staged);
  const pipeline::Outcome x =
      world->fused->process(f.frame(arrival.port, arrival.vouched, arrival.single_segment), now);
  const pipeline::Outcome y =
      world->staged->process(s.frame(arrival.port, arrival.vouched, arrival.single_segment), now);
  const Numbers after = numbers_of(*world->fused);
  const Numbers staged_after = numbers_of(*world->staged);

  check_same(x, y, f, s);
  check_counters(before, after, x, run);
  check_counters(staged_before, staged_after, y, run);
  check_owed(*world);
  check_heads(*world);
  send(x, f);
  if (x.verdict == Verdict::kForward || x.verdict == Verdict::kPunt || x.verdict == Verdict::kHandOver) {
    TALLY_CHECK(same_bytes(f.buffer().first(wire.size()), wire), "passed on as it came");
  }
  if (x.verdict == Verdict::kAbsorb || x.verdict == Verdict::kComplete || x.verdict == Verdict::kRepeat) {
    check_other_entries(*world, x, sent.chunk_id(), run);
  }
  const bool moved = x.verdict != Verdict::kDrop || x.drop == Drop::kBadSum;
  const bool passed_on = x.verdict == Verdict::kForward || x.verdict == Verdict::kPunt;
  if (!moved || passed_on || x.verdict == Verdict::kHandOver) {
    check_untouched(before, after);
    check_untouched(staged_before, staged_after);
    TALLY_CHECK(std::memcmp(world->pristine.data(), world->memory->region().data(),
                            world->pristine.size() * sizeof(jobs::Line)) == 0,
                "slot memory");
  }
  if (moved && !passed_on) world.reset();
  if (!world) return;
  while (world->fused->events().pop()) continue;
  while (world->staged->events().pop()) continue;
}

}  // namespace
}  // namespace tally

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tally::run({data, size});
  return 0;
}
