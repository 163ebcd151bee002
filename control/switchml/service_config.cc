#include "switchml/service_config.h"

#include <array>
#include <map>
#include <set>
#include <utility>

#include "config/config_schema.h"
#include "config/load_config.h"
#include "config/yaml.h"
#include "tally/switchml.h"
#include "text/text.h"

namespace tally::switchml_service {
namespace {

using config::Choice;
using config::Schema;
using session_service::Network;
using Port = session_service::Settings::Port;

constexpr std::size_t kMaxFileBytes = 65'536;
constexpr std::size_t kMaxJobName = 64;
constexpr std::size_t kMaxPortName = 32;
constexpr std::size_t kMostPorts = 64;

constexpr std::array<Choice<jobs::TsiRule>, 2> kRules{
    {{"packet", jobs::TsiRule::kPacket}, {"opaque", jobs::TsiRule::kOpaque}}};
constexpr std::array<Choice<config::LogSection::Level>, 5> kLevels{
    {{"trace", config::LogSection::Level::kTrace},
     {"debug", config::LogSection::Level::kDebug},
     {"info", config::LogSection::Level::kInfo},
     {"warning", config::LogSection::Level::kWarning},
     {"error", config::LogSection::Level::kError}}};

config::ValueType<std::string> socket_path() {
  return config::scalar_type<std::string>(
      "auto or an absolute path",
      [](const std::string& text) -> config::Parsed<std::string> {
        if (text == "auto") return text;
        if (!text.starts_with('/'))
          return config::complain(config::shown(text) + " is no absolute path",
                                  "write auto, or a path such as /run/tally/rack1.sock");
        if (text.size() > config::kMaxSocketPath)
          return config::complain("the path has " + std::to_string(text.size()) +
                                      " bytes; a socket's has at most " +
                                      std::to_string(config::kMaxSocketPath),
                                  "shorten it");
        return text;
      },
      [](const std::string& path) { return config::yaml_text(path); });
}

config::ValueType<std::string> listen_address() {
  return config::scalar_type<std::string>(
      "any, or an IP address of this machine",
      [](const std::string& text) -> config::Parsed<std::string> {
        if (text == "any" || text::ip_address(text)) return text;
        return config::complain(config::shown(text) + " is no IP address",
                                "write any, or one such as 10.0.0.9");
      },
      [](const std::string& address) { return config::yaml_text(address); });
}

config::ValueType<Network> network() {
  return config::scalar_type<Network>("a network such as 10.0.0.0/24", session_service::parse_network,
                                      [](const Network& n) { return session_service::to_text(n); });
}

// A job's name begins with it.
config::ValueType<std::string> job_prefix() { return config::name_up_to(kMaxJobName - kMaxPortName); }

const Schema<Port>& port_schema() {
  static const Schema<Port> schema{
      value_key("port", &Port::port, config::whole_number_in<std::uint16_t>(1, UINT16_MAX),
                "The TCP port, which its clients have as `controller_port`."),
      required_key("name", &Port::name, config::name_up_to(kMaxPortName),
                   "Its session is the job `prefix` + name of tallyd."),
  };
  return schema;
}

const Schema<config::LogSection>& log_schema() {
  static const Schema<config::LogSection> schema{
      value_key("level", &config::LogSection::level, config::one_of(kLevels),
                "The least important lines that are written."),
  };
  return schema;
}

const Schema<ServiceConfig>& service_schema() {
  using C = ServiceConfig;
  static const Schema<C> schema{
      value_key(
          "tallyd", &C::tallyd, socket_path(),
          "The control socket of the box (`control.socket`). auto: of the only tallyd of this machine."),
      value_key("address", &C::address, listen_address(),
                "Where clients may connect. any: IPv4, and IPv6 if the kernel has it."),
      list_key("listen", &C::listen, port_schema()),
      value_key("prefix", &C::prefix, job_prefix(),
                "What the names of its jobs begin with. Jobs of tallyctl job add with such names are taken "
                "for its own."),
      value_key("allow", &C::allow, config::list_of(network(), 0, 256, true),
                "The networks of the addresses that clients may claim (`worker_ip`). []: any."),
      value_key("slots", &C::slots, config::whole_number_in<std::uint32_t>(1, switchml::kMaxSlots),
                "Of each session: at least twice the clients' `max_outstanding_packets`."),
      value_key("tsi", &C::tsi, config::one_of(kRules), "As of a session in tallyd's file."),
      value_key("wait", &C::wait, config::time_between(kSecond, 24 * 3600 * kSecond),
                "How long the first ranks wait for the last one."),
      value_key("idle", &C::idle, config::time_between(kSecond, 30 * 24 * 3600 * kSecond),
                "A session whose clients are not connected ends without packets for so long."),
      value_key("connections", &C::connections, config::whole_number_in<std::uint32_t>(1, 65'536),
                "TCP connections at most; beyond, the oldest of nobody's session is closed."),
      section_key("log", &C::log, log_schema()),
  };
  return schema;
}

void check_listen(const ServiceConfig& config, const config::Places& places, config::Report& report) {
  const auto complain = [&](const std::string& path, std::string message, std::string help) {
    report.error(places.of(path), path, {std::move(message), std::move(help)});
  };
  if (config.listen.empty() && places.sound("listen"))
    complain("listen", "nobody could connect: listen has no port",
             "write listen: [{port: 50099, name: first}]");
  if (config.listen.size() > kMostPorts)
    complain("listen", "listen has " + std::to_string(config.listen.size()) + " ports",
             "at most " + std::to_string(kMostPorts) + " are served");
  std::map<std::string, std::size_t> names;
  std::map<std::uint16_t, std::size_t> ports;
  for (std::size_t i = 0; i < config.listen.size(); ++i) {
    const Port& port = config.listen[i];
    const std::string place = "listen[" + std::to_string(i) + "]";
    if (places.sound(place + ".name") && !port.name.empty() && !names.emplace(port.name, i).second)
      complain(place + ".name", config::shown(port.name) + " is the name of another port", "choose another");
    if (places.sound(place + ".port") && !ports.emplace(port.port, i).second)
      complain(place + ".port", std::to_string(port.port) + " is listened on already",
               "one port has one session at a time; choose another");
  }
}

ServiceConfig read_service(const config::YamlSource& source, config::Report& report) {
  ServiceConfig config;
  check_text(source, report);
  if (report.has_errors()) return config;
  auto root = config::parse_yaml(source, report);
  if (!root) return config;
  config::Places places;
  config::Reading reading{report, places};
  if (root->at.line == 0) root->at = {1, 1};
  read_section(config::Written{*root, "", reading}, service_schema(), config);
  if (root->kind == config::YamlNode::Kind::kMap) check_listen(config, places, report);
  return config;
}

}  // namespace

tl::expected<LoadedService, config::Diagnostics> load_service_text(std::string text,
                                                                   const std::string& name) {
  const config::YamlSource source(name, std::move(text));
  config::Report report(source);
  ServiceConfig config = read_service(source, report);
  if (report.has_errors()) return tl::unexpected<config::Diagnostics>(report.take());
  return LoadedService{std::move(config), report.take()};
}

tl::expected<LoadedService, config::Diagnostics> load_service(const std::string& path) {
  auto file = config::read_file(path, kMaxFileBytes);
  if (!file)
    return tl::unexpected<config::Diagnostics>(config::about_the_file(path, std::move(file.error())));
  return load_service_text(std::move(file->text), path);
}

session_service::Settings settings_of(const ServiceConfig& config) {
  return {.listen = config.listen,
          .prefix = config.prefix,
          .allow = config.allow,
          .slots = config.slots,
          .tsi = config.tsi,
          .wait = config.wait,
          .idle = config.idle};
}

std::string service_reference() {
  std::vector<config::ReferenceRow> rows;
  describe_section(service_schema(), "", rows);
  std::string out = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const config::ReferenceRow& row : rows)
    out += "| `" + row.path + "` | " + row.form + " | " +
           (row.fallback.starts_with('(') ? row.fallback : "`" + row.fallback + "`") + " | " + row.doc +
           " |\n";
  return out;
}

}  // namespace tally::switchml_service
