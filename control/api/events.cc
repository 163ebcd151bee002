#include "api/events.h"

#include <array>

namespace tally::api {
namespace {

constexpr std::array<EventKind, 21> kKinds{{
    {"job.forming", "members are awaited, or called back"},
    {"job.joined", "a rank is there"},
    {"job.gone", "a rank went before its job formed: its lease ran out, or it fell silent"},
    {"job.running", "an epoch began: the first, or the next one"},
    {"job.left", "a rank said goodbye"},
    {"job.draining", "some have left, the others go on"},
    {"job.ended", "everybody has left"},
    {"job.aborted", "it failed, and the text says why: a lease that ran out and whose, sizes that differ"},
    {"job.home", "of a job over several boxes another one became the home, or this one"},
    {"job.window", "it gives slot memory to another job, or gets it back"},
    {"job.waits", "it cannot begin, and the text says what it lacks"},
    {"job.parent", "of the box of a rack: what its parent is to it"},
    {"job.declared", "job.add made it, or a group's first worker"},
    {"job.changed", "job.set gave it other values, and the text says which"},
    {"job.planned", "which box sums what of it, and why that changes"},
    {"job.removed", "job.remove took it back, or nobody was in a group for long"},
    {"slots.evicted", "shared slots were taken from a job: how many, at most once a second"},
    {"port.up", "the link is there"},
    {"port.down", "the link is gone"},
    {"config.reloaded", "the configuration was read again, and what came of it"},
    {"log", "any other line of the log, from warning on"},
}};

Json or_null(std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

std::span<const EventKind> event_kinds() { return kKinds; }

std::string event_text(const Event& event, std::uint64_t number, std::uint64_t unix_ns) {
  constexpr std::array<std::string_view, 5> kLevels{"trace", "debug", "info", "warning", "error"};
  return dumped({{"number", number},
                 {"unix_ns", unix_ns},
                 {"event", event.kind},
                 {"level", kLevels.at(static_cast<std::size_t>(event.level))},
                 {"job", or_null(event.job)},
                 {"rank", event.rank ? Json(*event.rank) : Json(nullptr)},
                 {"port", or_null(event.port)},
                 {"text", event.text}});
}

std::string event_line(std::string_view event_text) {
  return std::string(R"({"jsonrpc":"2.0","method":"event","params":)").append(event_text).append("}\n");
}

std::string event_line(const Event& event, std::uint64_t number, std::uint64_t unix_ns) {
  return event_line(event_text(event, number, unix_ns));
}

std::string lost_line(std::uint64_t events) {
  return event_line(dumped({{"event", "lost"}, {"count", events}}));
}

std::string events_markdown() {
  std::string out = "| event | when |\n|---|---|\n";
  for (const EventKind& kind : kKinds)
    out.append("| `").append(kind.name).append("` | ").append(kind.help).append(" |\n");
  return out;
}

}  // namespace tally::api
