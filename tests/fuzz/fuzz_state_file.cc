// Any bytes as the state file of a daemon. What is taken is written again as the same jobs, each of which is read
// as a job of the configuration or refused in words; what is not taken says why.

#include <memory>
#include <string>

#include "api/job_json.h"
#include "config/config.h"
#include "config/one_job.h"
#include "daemon/state_file.h"
#include "tally/check.h"

namespace tally {
namespace {

void declare(const api::Json& job) {
  const auto read =
      config::read_one_job(api::node_of(job), config::Config{}, ".", config::TokenFiles::kLeave);
  if (read) return;
  for (const config::Diagnostic& d : api::with_pointers(read.error()))
    TALLY_CHECK(!d.message.empty() && (d.path.empty() || d.file == config::kTheBox || d.path[0] == '/'),
                "a complaint with its place");
}

}  // namespace
}  // namespace tally

// A first byte of '!' asks for a right checksum: the rest is the list of jobs.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('!')) {
    const auto jobs = tally::api::read_json(text.substr(1));
    if (!jobs || !jobs->is_array()) return 0;
    tally::daemon::State state{"fuzz", {}};
    for (const auto& job : *jobs) state.jobs.push_back(job);
    text = tally::daemon::state_text(state);
  }
  const auto state = tally::daemon::read_state(text, "fuzz");
  if (!state) {
    TALLY_CHECK(!state.error().empty(), "why not");
    return 0;
  }
  const auto again = tally::daemon::read_state(tally::daemon::state_text(*state), "fuzz");
  TALLY_CHECK(again && again->jobs == state->jobs, "what is kept is what was");
  for (const tally::api::Json& job : state->jobs) tally::declare(job);
  return 0;
}
