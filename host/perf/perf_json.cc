#include <utility>

#include "machine_json.h"
#include "perf_report.h"

namespace tally {

std::string perf_json(const PerfOptions& options, const PerfSetting& setting,
                      const std::vector<PerfRow>& rows) {
  nlohmann::json environment = machine_json(setting.machine);
  environment["warnings"] = perf_warnings(options, setting);
  nlohmann::json out{{"environment", std::move(environment)},
                     {"job", setting.job},
                     {"transport", setting.transport},
                     {"world", setting.world},
                     {"elements", setting.elements},
                     {"window", setting.window},
                     {"polling", setting.poll},
                     {"type", options.type == Dtype::kFloat32 ? "float" : "int32"},
                     {"iterations", options.iterations},
                     {"warm_up", options.warm_up},
                     {"checked", options.check},
                     {"seed", options.seed},
                     {"rows", nlohmann::json::array()}};
  for (const auto& row : rows) {
    nlohmann::json one{{"bytes", row.bytes},
                       {"us",
                        {{"avg", row.us.average},
                         {"min", row.us.least},
                         {"p50", row.us.p50},
                         {"p99", row.us.p99},
                         {"p99.9", row.us.p999},
                         {"max", row.us.most}}},
                       {"algbw_gbytes_s", algbw(row)},
                       {"busbw_gbytes_s", busbw(row, setting.world)},
                       {"line_share", nullptr},
                       {"packets", row.packets},
                       {"retransmissions", row.retransmissions},
                       {"wrong", nullptr},
                       {"largest_error_of_bound", row.largest_error}};
    if (options.line_rate > 0) one["line_share"] = line_share(row, options.line_rate, setting.ipv6);
    if (options.check) one["wrong"] = row.wrong;
    out["rows"].push_back(std::move(one));
  }
  return out.dump(1) + "\n";
}

}  // namespace tally
