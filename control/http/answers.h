#pragma once
// What each path answers, made of a snapshot, and which requests are refused before that. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http/exchange.h"
#include "http/metrics.h"

namespace tally::http {

enum class PathId : std::uint8_t {
  kPage,
  kHealthz,
  kReadyz,
  kMetrics,
  kEvents,
  kBox,
  kJobs,
  kPorts,
  kCores,
  kDrops,
  kSlots,
  kHealth,
  kConfig,
  kFleet,
  kPlan,
  kCount,
};
inline constexpr std::size_t kPathCount = static_cast<std::size_t>(PathId::kCount);

struct Path {
  PathId id{};
  std::string_view path;
  bool of_box = true;  // answered from a snapshot; else at once
  std::string_view help{};
};

// By PathId.
[[nodiscard]] std::span<const Path> paths();
// path: without a query. nullptr: there is nothing.
[[nodiscard]] const Path* find_path(std::string_view path);

struct Answer {
  unsigned status = 200;
  std::string_view type{};  // of the content
  std::string text{};
};

inline constexpr std::string_view kPlain = "text/plain; charset=utf-8";
inline constexpr std::string_view kJsonType = "application/json";
inline constexpr std::string_view kStreamType = "text/event-stream";

// What is known beside a snapshot.
struct Own {
  std::string version{};  // tallyd's
  std::string instance{};
  HttpCounts counts{};
};

// The answer of a path but kEvents, whose stream is the server's. of: not null where the path is of_box.
[[nodiscard]] Answer answer_to(PathId path, const Published* of, const Own& own);

// Of /api/v1/box, which the event stream repeats. One line.
[[nodiscard]] std::string box_text(const Published& of, const Own& own);
// The first frame of an event stream.
[[nodiscard]] std::string hello_text(const Own& own);

// Sentences for those who are refused.
[[nodiscard]] std::string no_such_path_text();
// Why a browser, or whoever sends this Host, may not read: the name is none of this machine's, as when a page of
// somebody else has its own name point here. host: of the request, if it has one. local: the IP address that the
// connection came to, empty for a Unix socket. Empty: it may.
[[nodiscard]] std::string objection_to_host(std::optional<std::string_view> host, std::string_view local);

// The live page. page.html, as it was built in.
[[nodiscard]] std::string_view page();

}  // namespace tally::http
