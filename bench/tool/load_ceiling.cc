#include "load_ceiling.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tally::bench {
namespace {

tl::unexpected<Error> bad(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "--ceiling");
}

std::string frames_text(std::uint32_t elements, bool ipv6, bool tagged) {
  return std::to_string(elements) + " elements, IPv" + (ipv6 ? "6" : "4") + (tagged ? ", tagged" : "");
}

}  // namespace

Result<double> ceiling_of(const std::string& text, const LoadOptions& options) {
  if (const auto per_s = parse_per_s(text)) return *per_s;
  std::ifstream in(text);
  if (!in)
    return bad("'" + text +
               "' is neither packets per second, such as 800k or 1.2M, nor a file that can be read");
  try {
    const auto run = nlohmann::json::parse(in);
    if (!run.at("echo").get<bool>()) return bad(text + " is of a run against a box: give one with --echo");
    const std::string theirs = frames_text(run.at("elements").get<std::uint32_t>(),
                                           run.at("ipv6").get<bool>(), !run.at("vlan").is_null());
    const std::string ours = frames_text(options.elements, options.box.find(':') != std::string::npos,
                                         options.format.vlan != jobs::kUntagged);
    if (theirs != ours) return bad(text + " is of other frames: " + theirs + ", not " + ours);
    double most = 0;
    for (const auto& one : run.at("runs")) most = std::max(most, one.at("received_per_s").get<double>());
    if (most > 0) return most;
    return bad(text + ": nothing came back in its runs");
  } catch (const nlohmann::json::exception& e) {
    return bad(text + " is no --json file of tally-bench: " + e.what());
  }
}

}  // namespace tally::bench
