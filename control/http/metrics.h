#pragma once
// A snapshot as Prometheus reads it: the text format 0.0.4. Pure.
//
// Counters only grow while this process lives, and begin anew with the next, which Prometheus takes into account. What
// is derived from a clock that may be set is a gauge. A job is known by its name: of one that was taken back and made
// again the counters go on.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/snapshot.h"

namespace tally::http {

// Why a client of HTTP was not served, or not to the end.
enum class Refusal : std::uint8_t {
  kConnections,  // too many at once
  kDescriptors,  // the process has none left
  kStreams,      // too many event streams
  kIdle,         // no whole request came in time
  kSlow,         // it took an answer too slowly
  kUnread,       // it did not read its event stream
  kMalformed,    // no HTTP, or more than a request may have
  kHost,         // by a name that is not ours
  kMethod,       // other than GET and HEAD
  kBody,         // with a body
  kNoSnapshot,   // the control thread did not answer
  kFailed,       // an exception: no memory, or a defect
  kCount,
};
inline constexpr std::size_t kRefusalCount = static_cast<std::size_t>(Refusal::kCount);
inline constexpr std::array<std::string_view, kRefusalCount> kRefusalNames{
    "connections", "descriptors", "streams", "idle", "slow",        "unread",
    "malformed",   "host",        "method",  "body", "no_snapshot", "failed"};

// Of the server itself. Owner: the HTTP thread.
struct HttpCounts {
  std::size_t connections = 0;  // now
  std::size_t streams = 0;      // now
  std::uint64_t accepted = 0;
  std::uint64_t requests = 0;  // those that got an answer
  std::uint64_t kept_bytes = 0;
  std::array<std::uint64_t, kRefusalCount> refused{};

  [[nodiscard]] std::uint64_t& of(Refusal r) noexcept { return refused[static_cast<std::size_t>(r)]; }
  [[nodiscard]] std::uint64_t of(Refusal r) const noexcept { return refused[static_cast<std::size_t>(r)]; }
};

// version: tallyd's.
[[nodiscard]] std::string metrics_text(const api::Snapshot& box, std::string_view version,
                                       const HttpCounts& http);

// All of them as a table in Markdown: docs/http.md.
[[nodiscard]] std::string metrics_markdown();

}  // namespace tally::http
