#include <nlohmann/json.hpp>

#include "reports.h"

namespace tally::experiment {

std::string json_of(const Report& report) {
  using nlohmann::json;
  json goals = json::array();
  for (const Goal& goal : report.judgement.goals)
    goals.push_back({{"goal", goal.text}, {"figure", goal.figure}, {"reached", goal.reached}});
  json cells = json::array();
  for (std::size_t place = 0; place < report.grid.places.size(); ++place) {
    for (std::size_t row = 0; row < kRowCount; ++row) {
      const auto index = static_cast<RowIndex>(row);
      const Cell& c = report.grid.at(place, index);
      cells.push_back({{"row", row_at(index).name},
                       {"r", report.grid.places[place].server.name},
                       {"slots_share", report.grid.places[place].slots_share},
                       {"mean_jct_by_seed", c.times},
                       {"mean_jct", c.mean_time},
                       {"p99_jct", c.p99_time},
                       {"speed_up_over_atp_hash", report.grid.speed_up(place, index, kAtpHashRow)},
                       {"aggregation", c.aggregation},
                       {"utilisation", c.utilisation},
                       {"evictions", c.evictions},
                       {"server_gigabytes", c.server_gigabytes},
                       {"retransmissions", c.retransmissions},
                       {"queue_drops", c.queue_drops}});
    }
  }
  json regimes = json::array();
  for (const Regime& r : report.regimes) {
    const Setting& s = r.setting;
    regimes.push_back({{"seed", s.seed},
                       {"ratio", r.ratio},
                       {"best_reference", r.best},
                       {"mix", static_cast<int>(s.mix)},
                       {"jobs", s.jobs},
                       {"workers", s.world},
                       {"slots_share", s.slots_share},
                       {"server_rate", s.server_rate},
                       {"jobs_of_server", s.jobs_of_server},
                       {"window", s.window},
                       {"delay", s.delay},
                       {"jitter", s.jitter},
                       {"skew", s.skew},
                       {"stall", s.stall},
                       {"loss", s.loss}});
  }
  json urgent = json::array();
  for (const Urgent& u : report.urgent)
    urgent.push_back({{"slots_share", u.slots_share}, {"alone", u.alone}, {"beside", u.beside}});
  json out{{"wrong", report.judgement.wrong},
           {"seeds", report.grid.seeds},
           {"scale", report.base.scale},
           {"goals", goals},
           {"cells", cells},
           {"regimes", regimes},
           {"urgent", urgent}};
  for (const LeftOut& row : left_out()) out["left_out"][std::string(row.name)] = row.why;
  return out.dump(1) + "\n";
}

}  // namespace tally::experiment
