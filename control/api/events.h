#pragma once
// What a client that follows the box is told: of the control interface a line each, JSON-RPC notifications of the
// method "event"; over HTTP what such a line carries. Pure.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/request.h"
#include "config/config.h"

namespace tally::api {

struct EventKind {
  std::string_view name;
  std::string_view help;
};

// Every kind there is: in docs/tallyctl.md, and what the daemon's log lines name.
[[nodiscard]] std::span<const EventKind> event_kinds();

// A line of the log, and what it is about.
struct Event {
  std::string_view kind = "log";  // of event_kinds()
  config::LogSection::Level level{};
  std::string_view text{};
  std::string_view job{};  // empty: it is about none
  std::optional<std::uint32_t> rank{};
  std::string_view port{};  // empty: it is about none
};

// number: of all events of this daemon, from 1 on. unix_ns: when it happened.
[[nodiscard]] std::string event_text(const Event& event, std::uint64_t number, std::uint64_t unix_ns);
// The same as a notification, which carries it as its parameters.
[[nodiscard]] std::string event_line(std::string_view event_text);
[[nodiscard]] std::string event_line(const Event& event, std::uint64_t number, std::uint64_t unix_ns);
// In place of those that a client lost because it did not read.
[[nodiscard]] std::string lost_line(std::uint64_t events);

// The kinds as a table in Markdown.
[[nodiscard]] std::string events_markdown();

}  // namespace tally::api
