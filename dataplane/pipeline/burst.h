#pragma once
// How a burst goes through the pipeline: two passes, so that the memory a packet needs is on its way while
// the packets before it are worked on.

#include <array>
#include <cstddef>
#include <cstdint>

#include "pipeline/pipeline.h"

namespace tally::pipeline {

// The steps of a data core's turn, for who times them. An execution that has enter() is told where each
// begins, as bench/loop's is; the product's have none, and of these calls nothing is compiled.

enum class Step : std::uint8_t {
  kReceive,   // a burst from the port; what each frame is marked with
  kParse,     // first pass: gates and match, headers and entries fetched ahead
  kFetch,     // second pass, of each packet: values fetched ahead
  kHandle,    // registers, values, the result's header
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
// Packets whose values are fetched ahead in the second pass. Share of raw add at 256 elements, frames in L3,
// by pipeline_bench: none 48 %, 2 ahead 51-54 %, 4 ahead 59-62 %.
inline constexpr std::size_t kValuesAhead = 4;

// Packets whose headers are fetched ahead in the first pass; a burst ahead is too far: the values of 32
// packets push them out of the L1 cache again.
inline constexpr std::size_t kHeadersAhead = 8;

using ParsedBurst = std::array<Parsed, kBurst>;

// `frame(i)`: the i-th Frame, i < count <= kBurst. `done(i, outcome)`: called in order of arrival.
template <class Exec, class FrameAt, class Done>
void run_burst(Pipeline<Exec>& pipeline, ParsedBurst& parsed, std::size_t count, TimeNs now, FrameAt frame,
               Done done) noexcept {
  for (std::size_t i = 0; i < count && i < kHeadersAhead; ++i) pipeline.prefetch_header(frame(i));
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kHeadersAhead < count) pipeline.prefetch_header(frame(i + kHeadersAhead));
    pipeline.parse(frame(i), parsed[i]);
    pipeline.prefetch_entry(parsed[i]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    enter_step(pipeline.execution(), Step::kFetch);
    if (i + kValuesAhead < count) pipeline.prefetch_values(parsed[i + kValuesAhead]);
    enter_step(pipeline.execution(), Step::kHandle);
    done(i, pipeline.handle(parsed[i], frame(i), now));
  }
}

}  // namespace tally::pipeline
