#pragma once
// The file of tally-switchml, by the readers of tallyd's own: every mistake with line, column and what to do.

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "config/config.h"
#include "config/diagnostic.h"
#include "session_service/requests.h"

namespace tally::switchml_service {

struct ServiceConfig {
  std::string tallyd = "auto";  // or the path of its control socket
  std::string address = "any";  // or the address that is listened on
  std::vector<session_service::Settings::Port> listen{};
  std::string prefix = "switchml.";
  std::vector<session_service::Network> allow{};
  std::uint32_t slots = 2048;
  jobs::TsiRule tsi = jobs::TsiRule::kPacket;
  TimeNs wait = 60 * kSecond;
  TimeNs idle = 600 * kSecond;
  std::uint32_t connections = 1024;  // at most
  config::LogSection log{};
};

struct LoadedService {
  ServiceConfig config{};
  config::Diagnostics warnings{};
};
// On failure: at least one error, and the warnings too.
[[nodiscard]] tl::expected<LoadedService, config::Diagnostics> load_service(const std::string& path);
[[nodiscard]] tl::expected<LoadedService, config::Diagnostics> load_service_text(std::string text,
                                                                                 const std::string& name);

[[nodiscard]] session_service::Settings settings_of(const ServiceConfig& config);

// All keys with type, default and meaning, as a table in Markdown.
[[nodiscard]] std::string service_reference();

}  // namespace tally::switchml_service
