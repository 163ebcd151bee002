#include "shared_packets.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "harness.h"

namespace tally::bench {
namespace {

using Scene = SharedPackets;

constexpr std::uint32_t kFrameBytes = FrameRing::kValuesOffset + 4 * Scene::kElements;
constexpr std::uint32_t kFrameLines = (kFrameBytes + 63) / 64;
constexpr std::uint32_t kJobFrames = Scene::kWorld * Scene::kChunks;
constexpr std::uint32_t kStep = jobs::entry_lines(Scene::kElements);
constexpr std::uint32_t kLedger = jobs::ledger_lines(2 * kBenchWindow, 1);
constexpr std::uint32_t kPool = jobs::pool_lines(kBenchWindow, 1, Scene::kElements);
constexpr std::uint32_t kRangeOfJob = std::max(kLedger, kPool);
constexpr std::uint32_t kLines = 2 * kRangeOfJob + Scene::kChunks * kStep;

jobs::NativeJob job_of(Discipline discipline, std::uint16_t id) {
  jobs::NativeJob job = make_job({.world = Scene::kWorld, .elements = Scene::kElements, .id = id});
  job.discipline = discipline;
  job.slots.first = (id - 1U) * kRangeOfJob;
  if (!shares_slots(discipline)) return job;
  job.slots.count = kLedger;
  job.server = ServerKind::kEmbedded;
  job.shared_slots = Scene::kChunks;
  return job;
}

void read(const void* data, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  auto all = std::byte{0};
  for (std::size_t at = 0; at < bytes; at += kLine) all |= static_cast<const std::byte*>(data)[at];
  asm volatile("" : : "r"(all));
}

}  // namespace

SharedPackets::SharedPackets(Discipline discipline, const kernels::Kernels& kernels)
    : kernels_(kernels),
      frames_(std::size_t{2} * kJobFrames * kFrameLines),
      memory_(kLines),
      states_(std::size_t{kChunks} * kStep),
      pipeline_({.core = 0,
                 .box = job_box(),
                 .shared = jobs::shared_region(kLines, kChunks, kElements),
                 .server = states_},
                memory_, kernels),
      senders_{{{.job = job_of(discipline, 1)}, {.job = job_of(discipline, 2)}}} {
  entries_ = {shares_slots(discipline) ? pipeline_.shared().region().first : 0, kChunks * kStep};
  std::uint64_t random = 1;
  jobs::Line* next = frames_.data();
  for (Sender& sender : senders_) {
    for (std::uint32_t i = 0; i < kJobFrames; ++i, next += kFrameLines) {
      sender.frames.push_back(reinterpret_cast<std::byte*>(next));
      write_values(sender.frames.back() + FrameRing::kValuesOffset, kElements,
                   [&random](std::size_t) { return static_cast<std::int32_t>(mix64(random++) & 0xFFF); });
    }
  }
}

// The ledger's rows know no epoch; control frees and so clears them with each.
void SharedPackets::next_epoch(Sender& sender) {
  sender.job.epoch = Epoch{++epoch_};
  if (sender.job.discipline == Discipline::kShared)
    pipeline_.release(sender.job.id, sender.job.slots, 0, sender.job.members);
}

void SharedPackets::publish() {
  auto table = jobs::JobTable().with(senders_[0].job.id, std::make_shared<jobs::NativeJob>(senders_[0].job));
  table = table->with(senders_[1].job.id, std::make_shared<jobs::NativeJob>(senders_[1].job));
  pipeline_.adopt(table.get());
  table_ = std::move(table);
}

void SharedPackets::write_headers(const Sender& sender) {
  for (std::uint16_t rank = 0; rank < kWorld; ++rank) {
    MemberFrames frames(sender.job, rank, job_box());
    for (std::uint32_t c = 0; c < kChunks; ++c) {
      std::byte* const at = frame(sender, rank, c);
      frames.write(std::span<std::byte, MemberFrames::kHeaders>(at, MemberFrames::kHeaders),
                   Chunk{first_ + c}, sums(at), kernels_);
    }
  }
}

// Other chunks in the same slots: what the server has completed it knows in every epoch.
void SharedPackets::begin() {
  first_ += 2 * kBenchWindow;
  for (Sender& sender : senders_) {
    next_epoch(sender);
    write_headers(sender);
  }
  publish();
}

// Those in question come last. All together are more than an L2 cache holds.
void SharedPackets::warm(const Sender& sender, std::uint16_t rank) const {
  const auto* const first = reinterpret_cast<const jobs::Line*>(frame(sender, rank, 0));
  const jobs::Line* const middle = first + kChunks * kFrameLines;
  const jobs::Line* const begin = frames_.data();
  const jobs::Line* const end = begin + frames_.size();
  read(middle, static_cast<std::size_t>(end - middle) * sizeof(jobs::Line));
  read(begin, static_cast<std::size_t>(middle - begin) * sizeof(jobs::Line));
  read(states_.data(), states_.size() * sizeof(jobs::Line));
  for (const Sender& s : senders_) read(&memory_[s.job.slots.first], kLedger * sizeof(jobs::Line));
  read(&memory_[entries_.first], entries_.count * sizeof(jobs::Line));
}

void SharedPackets::send(const Sender& sender, std::uint16_t rank, Verdict verdict) {
  // The last arrivals come in another order, or the free list would keep the entries' own.
  const std::uint32_t step = rank + 1 == kWorld ? 37 : 1;
  const std::uint64_t before = pipeline_.counters(sender.job.id).of(verdict);
  for (std::uint32_t c = 0; c < kChunks; c += pipeline::kBurst) {
    for (std::uint32_t i = 0; i < pipeline::kBurst; ++i)
      burst_[i] = {.data = frame(sender, rank, (c + i) * step % kChunks),
                   .length = kFrameBytes,
                   .capacity = kFrameLines * sizeof(jobs::Line),
                   .port = PortIndex{0},
                   .checksum_good = true};
    pipeline::run_burst(
        pipeline_, parsed_, burst_, 1, [](std::size_t, std::size_t) {},
        [](std::size_t, const pipeline::Outcome&) {});
  }
  require(pipeline_.counters(sender.job.id).of(verdict) - before == kChunks, "an unexpected verdict");
}

// Less what the clock costs: a batch takes a few microseconds, the two readings of it 0.4.
void SharedPackets::send_timed(const Sender& sender, std::uint16_t rank, Verdict verdict) {
  warm(sender, rank);
  const Round nothing = RoundTimer().done(0);
  const RoundTimer timer;
  send(sender, rank, verdict);
  const Round done = timer.done(kChunks);
  total_.seconds += done.seconds - nothing.seconds;
  total_.operations += done.operations;
  total_.disturbed |= done.disturbed || nothing.disturbed;
}

void SharedPackets::finish(const Sender& sender, std::uint16_t from) {
  for (std::uint16_t rank = from; rank + 1 < kWorld; ++rank) send(sender, rank, Verdict::kAbsorb);
  send(sender, kWorld - 1, Verdict::kComplete);
}

void SharedPackets::finish_at_server(const Sender& sender, std::uint16_t from) {
  const auto served = [&] { return pipeline_.state(sender.job.id).slots.served.get(); };
  const std::uint64_t before = served();
  for (std::uint16_t rank = from; rank < kWorld; ++rank) send(sender, rank, Verdict::kBypass);
  require(served() - before == kChunks, "the server did not complete every chunk with right sums");
}

// The batches of each kind of packet.

namespace {

constexpr int kBatches = 8;

}  // namespace

void SharedPackets::add() {
  const Sender& a = senders_[0];
  send(a, 0, Verdict::kAbsorb);
  for (std::uint16_t rank = 1; rank + 1 < kWorld; ++rank) send_timed(a, rank, Verdict::kAbsorb);
  finish(a, kWorld - 1);
}

void SharedPackets::swap(bool merge) {
  Sender& a = senders_[0];
  const Sender& b = senders_[1];
  std::vector<kernels::Sums> swapped_out;
  for (std::uint32_t c = 0; c < kChunks; ++c) swapped_out.push_back(sums(frame(a, 0, c)));
  send(a, 0, Verdict::kAbsorb);
  if (!merge) {
    next_epoch(a);
    publish();
  }
  send_timed(b, 0, Verdict::kEvict);
  // The clock hand takes the entries in the order in which they were claimed.
  for (std::uint32_t c = 0; c < kChunks; ++c)
    require(sums(frame(b, 0, c)) == swapped_out[c], "a packet left with other values than the entry's");
  finish(b, 1);
  if (merge) finish_at_server(a, 1);
  require(pipeline_.shared().filling() == 0, "an entry is filling at the end of a batch");
}

void SharedPackets::kernel(bool swaps) {
  constexpr std::uint16_t kRank = 1;
  const Sender& a = senders_[0];
  const auto values = [&](std::uint32_t c) {
    return reinterpret_cast<std::int32_t*>(&memory_[entries_.first + c * jobs::entry_lines(kElements) + 1]);
  };
  const auto wire = [&](std::uint32_t c) { return frame(a, kRank, c) + FrameRing::kValuesOffset; };
  std::vector<kernels::Sums> before;
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    if (!swaps) kernels_.write(values(c), frame(a, 0, c) + FrameRing::kValuesOffset, kElements);
    before.push_back(sums(frame(a, swaps ? kRank : 0, c)));
  }
  warm(a, kRank);
  const Round nothing = RoundTimer().done(0);
  const RoundTimer timer;
  bool overflow = false;
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    if (swaps) {
      kernels_.swap(values(c), wire(c), kElements);
    } else {
      overflow |= kernels_.add(values(c), wire(c), kElements);
    }
  }
  const Round done = timer.done(kChunks);
  asm volatile("" : : "r"(overflow));
  total_.seconds += done.seconds - nothing.seconds;
  total_.operations += done.operations;
  total_.disturbed |= done.disturbed || nothing.disturbed;
  // Taken back, it must leave what was there.
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    if (swaps) {
      kernels_.swap(values(c), wire(c), kElements);
      require(sums(frame(a, kRank, c)) == before[c], "swap lost values");
    } else {
      kernels_.subtract(values(c), wire(c), kElements);
      kernels_.read(values(c), wire(c), kElements);
      require(sums(frame(a, kRank, c)) == before[c], "add lost values");
    }
  }
}

Round SharedPackets::round(Timed timed) {
  total_ = {};
  for (int i = 0; i < kBatches; ++i) {
    begin();
    switch (timed) {
      case Timed::kFirst:
        send_timed(senders_[0], 0, Verdict::kAbsorb);
        finish(senders_[0], 1);
        break;
      case Timed::kAdd:
        add();
        break;
      case Timed::kSwap:
      case Timed::kSwapAndMerge:
        swap(timed == Timed::kSwapAndMerge);
        break;
      case Timed::kAddKernel:
      case Timed::kSwapKernel:
        kernel(timed == Timed::kSwapKernel);
        break;
    }
  }
  return total_;
}

namespace {

using Timed = SharedPackets::Timed;

constexpr int kRounds = 15;
constexpr double kSwapGoal = 2.0;  // at most so many times add

// One kind of packet, as measure() wants it.
struct Kind {
  SharedPackets& packets;
  Timed timed;
  Round round() { return packets.round(timed); }
};

struct Row {
  std::string key;  // for programs
  std::string name;
  std::string than;  // key of the row it is compared with
  double goal = 0;   // at most so many times that; 0: none
};

// In the order of the table.
const std::vector<Row> kRows{
    {"add_kernel", "add kernel", "add_kernel"},
    {"swap_kernel", "swap kernel", "add_kernel", kSwapGoal},
    {"pool_first", "pool, first of a chunk", "pool_add"},
    {"pool_add", "pool, add", "pool_add"},
    {"shared_add", "shared, add", "pool_add"},
    {"shared_claim", "shared, first of a chunk, claims", "pool_add"},
    {"shared_swap", "shared, first of a chunk, swaps", "pool_add", kSwapGoal},
    {"shared_swap_merge", "the same, and the server's merge", "pool_add"},
};

double ns_of(const std::string& key, const std::vector<Figure>& figures) {
  for (std::size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].key == key) return figures[i].median_ns;
  return 0;
}

nlohmann::json print(const Row& row, const Figure& f, const std::vector<Figure>& figures) {
  const double ratio = f.median_ns / ns_of(row.than, figures);
  std::printf("%-34s %8.1f %8.1f %8.1f %9.2f", row.name.c_str(), f.median_ns, f.min_ns, f.max_ns, ratio);
  if (row.goal > 0)
    std::printf("  goal <= %.1f: %s", row.goal, ratio <= row.goal ? "reached" : "NOT reached");
  std::printf("\n");
  return {{"key", row.key},     {"name", row.name},          {"median_ns", f.median_ns}, {"min_ns", f.min_ns},
          {"max_ns", f.max_ns}, {"compared_with", row.than}, {"ratio", ratio},           {"goal", row.goal}};
}

}  // namespace

nlohmann::json run_shared(const kernels::Kernels& kernels) {
  SharedPackets pool(Discipline::kPool, kernels);
  SharedPackets shared(Discipline::kShared, kernels);
  std::vector<Kind> kinds{
      {shared, Timed::kAddKernel}, {shared, Timed::kSwapKernel},   {pool, Timed::kFirst},
      {pool, Timed::kAdd},         {shared, Timed::kAdd},          {shared, Timed::kFirst},
      {shared, Timed::kSwap},      {shared, Timed::kSwapAndMerge},
  };
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    contenders.push_back({kRows[i].name, [kind = &kinds[i]] { return undisturbed(*kind); }});
  const auto figures = measure(contenders, kRounds);

  std::printf(
      "\nshared slots: %u elements, %u members, %u entries; entries and frames in L2, port's checksum "
      "verdict\n",
      SharedPackets::kElements, SharedPackets::kWorld, SharedPackets::kChunks);
  std::printf("%-34s %8s %8s %8s %9s\n", "", "ns", "min", "max", "x add");
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < figures.size(); ++i) rows.push_back(print(kRows[i], figures[i], figures));
  return {{"elements", SharedPackets::kElements},
          {"members", SharedPackets::kWorld},
          {"entries", SharedPackets::kChunks},
          {"rows", rows}};
}

}  // namespace tally::bench
