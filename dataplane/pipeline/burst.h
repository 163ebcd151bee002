#pragma once
// How a burst goes through the pipeline: two passes, so that the memory a packet needs is on its way while
// the packets before it are worked on.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pipeline/pipeline.h"

namespace tally::pipeline {

// The steps of a data core's turn, for who times them. An execution that has enter() is told where each
// begins, as bench/loop's is; the product's have none, and of these calls nothing is compiled.

enum class Step : std::uint8_t {
  kReceive,   // a burst from the port; what each frame is marked with
  kParse,     // first pass: gates and match, headers and entries fetched ahead
  kHandle,    // second pass: registers, values, the result's header
  kConclude,  // what a verdict that is not plain absorption asks for
  kGiveBack,  // absorbed mbufs to their mempool, events to control
  kTransmit,
  kRest
};

template <class Exec>
[[gnu::always_inline]] inline void enter_step([[maybe_unused]] Exec& exec,
                                              [[maybe_unused]] Step step) noexcept {
  if constexpr (requires { exec.enter(step); }) exec.enter(step);
}

inline constexpr std::size_t kBurst = 32;  // packets the loop takes at once
using ParsedBurst = std::array<Parsed, kBurst>;

// Packets ahead whose values and entry the kernels of the second pass fetch. Share of raw add at 256
// elements, frames in L3, by pipeline_bench: none 48 %, 2 ahead 51-54 %, 4 ahead 59-62 %.
inline constexpr std::size_t kValuesAhead = 4;
// Bytes of a packet from which on it is one packet: more of them and their entries push each other out of L1.
inline constexpr std::uint32_t kLongPacket = 4096;

// Packets whose headers are fetched ahead in the first pass; a burst ahead is too far: the values of 32
// packets push them out of the L1 cache again.
inline constexpr std::size_t kHeadersAhead = 8;

// frames: at most kBurst. Called in order of arrival: `added(first, end)` for packets that were added and of
// which nothing leaves, `done(i, outcome)` for any other.
template <class Exec, class Added, class Done>
void run_burst(Pipeline<Exec>& pipeline, ParsedBurst& parsed, std::span<const Frame> frames, TimeNs now,
               Added added, Done done) noexcept {
  pipeline.parse(frames, parsed);
  Outcome out;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const std::size_t first = i;
    i = pipeline.handle(frames, parsed, first, now, out);
    added(first, i);
    if (i < frames.size()) done(i, out);
  }
}

}  // namespace tally::pipeline
