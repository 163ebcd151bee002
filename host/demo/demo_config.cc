#include "demo_config.h"

#include <arpa/inet.h>

#include <array>
#include <charconv>
#include <optional>
#include <sstream>

#include "demo_jobs.h"
#include "slot_use.h"
#include "tally/discipline.h"

namespace tally {
namespace {

constexpr std::uint32_t kFirstHost = 10;  // in the box's network: 10.0.0.10, 10.0.0.11, ...

tl::unexpected<Error> unfit(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "the demo's configuration");
}

// "    mtu: 1500" -> 1500 if `key` is mtu.
std::optional<std::string> value_of(std::string_view line, std::string_view key) {
  const auto begin = line.find_first_not_of(" -");
  if (begin == std::string_view::npos) return std::nullopt;
  line.remove_prefix(begin);
  if (!line.starts_with(key) || !line.substr(key.size()).starts_with(": ")) return std::nullopt;
  return std::string(line.substr(key.size() + 2));
}

template <class N = std::uint16_t>
N number(const std::string& text) {
  N n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

// Replaces the value of `key=` in a list of comma-separated arguments.
std::string with_argument(const std::string& device, std::string_view key, std::string_view value) {
  const std::string assignment = std::string(",").append(key).append("=");
  const auto at = device.find(assignment);
  const auto end = at == std::string::npos ? at : device.find(',', at + 1);
  const std::string rest = end == std::string::npos ? "" : device.substr(end);
  return device.substr(0, at).append(assignment).append(value).append(rest);
}

struct Reader {
  const DemoWish& wish;
  DemoConfig config{};
  std::string section{};
  std::string subsection{};
  std::string cidr{};

  Result<void> line(std::string line);
  Result<void> port(std::string& line);
  std::string device(const std::string& memif);
  void job(const std::string& line);
};

Result<void> Reader::line(std::string line) {
  if (!line.empty() && line.front() != ' ') section = line.substr(0, line.find(':'));
  if (line.starts_with("  ") && !line.starts_with("   ")) subsection = line.substr(2, line.find(':') - 2);
  if (section == "dataplane" && subsection == "shared") {
    if (const auto value = value_of(line, "slots")) config.shared_slots = number<std::uint32_t>(*value);
  } else if (section == "box") {
    if (const auto value = value_of(line, "ipv4")) cidr = *value;
  } else if (section == "ports") {
    if (auto done = port(line); !done) return done;
  } else if (section == "jobs") {
    job(line);
  }
  config.text += line + "\n";
  return {};
}

Result<void> Reader::port(std::string& line) {
  if (const auto value = value_of(line, "device")) {
    if (!value->starts_with("\"net_memif") || !value->ends_with('"'))
      return unfit("port device " + *value + " is no net_memif; the demo's workers are on this machine");
    line = "    device: \"" + device(value->substr(1, value->size() - 2)) + "\"";
  } else if (const auto mtu = value_of(line, "mtu")) {
    config.mtus.push_back(number(*mtu));
  } else if (value_of(line, "loss") && !wish.loss.empty()) {
    // Of both directions, or of the one that has a word of its own.
    line = line.substr(0, line.find("loss")) + "loss: " + std::string(wish.loss);
  }
  return {};
}

// Of the next port; also notes the way of its worker.
std::string Reader::device(const std::string& memif) {
  if (wish.driver.empty()) {
    std::string device = with_argument(memif, "socket", wish.socket);
    config.transports.push_back("dpdk:" + with_argument(device, "role", "client"));
    return device;
  }
  const std::string number = std::to_string(config.transports.size());
  config.transports.emplace_back("udp");
  return "net_" + std::string(wish.driver) + number + ",iface=port" + number;
}

void Reader::job(const std::string& line) {
  if (const auto name = value_of(line, "name")) {
    config.jobs.push_back({.name = *name});
  } else if (const auto file = value_of(line, "token_file"); file && *file != "none") {
    const bool quoted = file->size() >= 2 && file->front() == '"';
    config.jobs.back().token_file = quoted ? file->substr(1, file->size() - 2) : *file;
  } else if (const auto workers = value_of(line, "workers")) {
    config.jobs.back().workers = number(*workers);
  } else if (const auto discipline = value_of(line, "discipline")) {
    config.jobs.back().discipline = *discipline;
  } else if (const auto priority = value_of(line, "priority")) {
    config.jobs.back().priority = number<std::uint8_t>(*priority);
  }
}

// Addresses for as many workers as there are ports, beside the box's own.
Result<void> choose_addresses(DemoConfig& config, const std::string& cidr) {
  const auto slash = cidr.find('/');
  in_addr box{};
  if (slash == std::string::npos || inet_pton(AF_INET, cidr.substr(0, slash).c_str(), &box) != 1)
    return unfit("box.ipv4 is " + cidr + "; the demo needs an IPv4 address there, such as 10.0.0.1/24");
  config.box = cidr.substr(0, slash);
  const unsigned hosts = 32U - number(cidr.substr(slash + 1));
  const std::uint32_t own = ntohl(box.s_addr);
  const std::uint32_t network = hosts >= 32 ? 0 : own >> hosts << hosts;
  std::uint32_t host = kFirstHost;
  for (std::size_t i = 0; i < config.transports.size(); ++i, ++host) {
    if (network + host == own) ++host;
    if (hosts < 32 && host >= (std::uint32_t{1} << hosts) - 1)
      return unfit("the network of box.ipv4 " + cidr + " is too small for the workers; /24 is enough");
    in_addr address{.s_addr = htonl(network + host)};
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &address, text.data(), text.size());
    config.addresses.push_back(text.data() + cidr.substr(slash));
  }
  return {};
}

std::string known_jobs() {
  std::vector<std::string> names;
  names.reserve(std::size(kDemoModels));
  for (const auto& model : kDemoModels) names.emplace_back(model.job);
  return listed(names);
}

Result<void> check_jobs_fit(const DemoConfig& config) {
  std::size_t workers = 0;
  for (const auto& job : config.jobs) {
    if (find_model(job.name) == nullptr)
      return unfit("job " + job.name + " is unknown to the demo, which has " + known_jobs());
    workers += job.workers;
  }
  if (config.jobs.empty()) return unfit("there is no job; the demo has " + known_jobs());
  if (workers > config.transports.size())
    return unfit(std::to_string(workers) + " workers need as many memif ports, and there are " +
                 std::to_string(config.transports.size()));
  return {};
}

}  // namespace

std::string DemoJobConfig::slots_text() const {
  return discipline == "pool" ? discipline : discipline + ", class " + std::to_string(class_of(priority));
}

Result<DemoConfig> make_demo_config(const std::string& dumped, const DemoWish& wish) {
  Reader reader{.wish = wish};
  std::istringstream lines(dumped);
  for (std::string line; std::getline(lines, line);) {
    if (auto done = reader.line(line); !done) return tl::unexpected<Error>(done.error());
  }
  if (auto done = check_jobs_fit(reader.config); !done) return tl::unexpected<Error>(done.error());
  if (auto done = choose_addresses(reader.config, reader.cidr); !done)
    return tl::unexpected<Error>(done.error());
  return std::move(reader.config);
}

}  // namespace tally
