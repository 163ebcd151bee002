#pragma once
// A trace of the daemon written to a file of pcapng.

#include <cstddef>
#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "client/connection.h"
#include "ctl/command.h"

namespace tally::ctl {

struct TraceFile {
  std::function<tl::expected<Json, client::Trouble>(const std::string& method, const Json& parameters)> ask;
  std::function<void(const std::string& bytes)> write;  // throws where it cannot
  std::function<bool()> told_to_end;                    // the user has had enough
};

// What became of it, a sentence without its end. wish: the parameters of trace.start. most_bytes: of the file.
// Ends what it began, also where a write throws.
[[nodiscard]] tl::expected<std::string, client::Trouble> write_trace(const TraceFile& file, const Json& wish,
                                                                     std::size_t most_bytes);

}  // namespace tally::ctl
