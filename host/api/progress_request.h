#pragma once
// What other threads ask of the progress thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine_options.h"
#include "operation_state.h"

namespace tally {

using FloatSpans = std::vector<std::span<float>>;
using Int32Spans = std::vector<std::span<std::int32_t>>;

struct ReduceRequest {
  std::variant<FloatSpans, Int32Spans> spans{};  // a barrier has none
  OperationOptions options{};
  std::shared_ptr<OperationState> state{};
  std::optional<Error> refused{};  // not to be issued: only the callback is due
};
struct AbortRequest {
  std::string reason{};
};
struct LeaveRequest {};
// The Worker is destroyed: abort unless closed, a bounded moment to tell the box, then the end.
struct StopRequest {};

using ProgressRequest = std::variant<ReduceRequest, AbortRequest, LeaveRequest, StopRequest>;

}  // namespace tally
