#include "clients_report.h"

#include <nlohmann/json.hpp>

#include "perf/machine.h"
#include "text/text.h"

namespace tally::stock {
namespace {

// Of the box, for each request.
std::string cpu_text(const SessionOutcome& o) {
  const auto packets = static_cast<double>(o.figures.counters.sent + o.figures.counters.resent);
  return o.box_cpu_s ? text::fixed(*o.box_cpu_s * 1e9 / packets, 1) : "n/a";
}

}  // namespace

std::string clients_table(const std::vector<SessionOutcome>& outcomes) {
  text::ColumnTable table({"session", "packets", "resent", "of it stale", "lost", "repeated replies",
                           "time ms", "k packets/s", "M elements/s", "CPU ns/packet", "largest error",
                           "sums"});
  for (const SessionOutcome& o : outcomes) {
    const StockCounters& c = o.figures.counters;
    table.add({o.name, text::with_commas(c.sent), text::with_commas(c.resent), text::with_commas(c.stale),
               text::with_commas(o.figures.lost_requests + o.figures.lost_replies),
               text::with_commas(c.duplicates), text::fixed(o.seconds * 1e3, 1),
               text::fixed(o.packets_per_s() / 1e3, 1), text::fixed(o.elements_per_s() / 1e6, 1), cpu_text(o),
               text::fixed(o.largest_error, 3), o.wrong.empty() ? "right" : "WRONG"});
  }
  return table.text();
}

std::string clients_json(const perf::Machine& machine, const ClientsOptions& options,
                         const std::vector<SessionOutcome>& outcomes) {
  nlohmann::json out{{"environment", perf::machine_json(machine)}, {"ports", options.ports}};
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const SessionOutcome& o = outcomes[i];
    const SessionOptions& s = options.sessions[i].session;
    const StockCounters& c = o.figures.counters;
    out["sessions"].push_back({{"name", o.name},
                               {"workers", o.members},
                               {"threads", s.threads},
                               {"payload", s.payload},
                               {"window", s.window},
                               {"loss", s.loss},
                               {"tsi", s.opaque_tsi ? "opaque" : "packet"},
                               {"elements", o.elements},
                               {"operations", s.operations.size()},
                               {"seconds", o.seconds},
                               {"box_cpu_s", o.box_cpu_s ? nlohmann::json(*o.box_cpu_s) : nlohmann::json()},
                               {"sent", c.sent},
                               {"resent", c.resent},
                               {"stale", c.stale},
                               {"answered", c.answered},
                               {"repeated_replies", c.duplicates},
                               {"taken_twice", c.taken_twice},
                               {"other_operations", c.others},
                               {"malformed", c.malformed},
                               {"strangers", o.figures.strangers},
                               {"judged", o.figures.judged},
                               {"lost_requests", o.figures.lost_requests},
                               {"lost_replies", o.figures.lost_replies},
                               {"packets_per_s", o.packets_per_s()},
                               {"elements_per_s", o.elements_per_s()},
                               {"largest_error", o.largest_error},
                               {"wrong", o.wrong}});
  }
  return out.dump(1) + "\n";
}

}  // namespace tally::stock
