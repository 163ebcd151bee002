#include "load_session.h"

namespace tally::bench {

Result<LoadOutcome> measure_memory(const LoadOptions&, const LoadListener&, const std::atomic<bool>&) {
  return fail(ErrorCode::kInvalidArgument, "not in this version", "--port memory");
}

}  // namespace tally::bench
