#pragma once
// The steps of a data core's turn, for who times them. An execution that has enter() is told where each
// begins, as bench/loop's is; the product's have none, and of these calls nothing is compiled.

#include <cstdint>

namespace tally {

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

}  // namespace tally
