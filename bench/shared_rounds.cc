// The batches of each kind of packet.

#include <cstdint>
#include <vector>

#include "harness.h"
#include "shared_packets.h"

namespace tally::bench {
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

}  // namespace tally::bench
