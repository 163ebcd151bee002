#include <algorithm>
#include <map>
#include <string>

#include "checks.h"
#include "tally/ids.h"

namespace tally {
namespace {

void check_names(Checking& c) {
  std::map<std::string, std::uint32_t> seen;
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    const std::string path = path_of("jobs", i, "name");
    const Position at = c.places.of(path);
    if (!c.places.sound(path)) continue;
    const auto [first, is_new] = seen.emplace(c.config.jobs[i].name, at.line);
    if (is_new) continue;
    c.report.error(at, path,
                   {"the name " + c.config.jobs[i].name + " is taken: line " + std::to_string(first->second) +
                        " has it already",
                    "choose another; workers find their job by its name"});
  }
}

struct MtuRange {
  std::uint16_t smallest = 0;
  std::uint16_t largest = 0;
  std::string smallest_port{};
};

// Empty range: not known, because a port is wrong or there is none.
MtuRange mtu_range(const Checking& c) {
  MtuRange range;
  for (std::size_t i = 0; i < c.config.ports.size(); ++i) {
    const PortSection& port = c.config.ports[i];
    if (!c.places.sound(path_of("ports", i, "mtu"))) return {};
    range.largest = std::max(range.largest, port.mtu);
    if (range.smallest != 0 && range.smallest <= port.mtu) continue;
    range.smallest = port.mtu;
    range.smallest_port = port.name;
  }
  return range;
}

void check_elements(Checking& c) {
  const MtuRange mtu = mtu_range(c);
  if (mtu.largest == 0 || !c.places.sound("box.ipv4") || !c.places.sound("box.ipv6")) return;
  const bool ipv4 = c.config.box.ipv4.has_value() || !c.config.box.ipv6.has_value();
  const std::uint16_t most = most_elements(mtu.largest, ipv4);
  const std::uint16_t most_there = most_elements(mtu.smallest, ipv4);
  const auto too_large = [&](const std::string& path, std::uint16_t elements) {
    c.report.error(c.places.of(path), path,
                   {std::to_string(elements) + " elements do not fit an " + (ipv4 ? "IPv4" : "IPv6") +
                        " packet of " + std::to_string(mtu.largest) + " bytes, the largest mtu of the ports",
                    "write at most " + std::to_string(most) + ", or raise mtu (9000 carries 2224)"});
  };
  const SharedSection& shared = c.config.dataplane.shared;
  const std::string shared_path = "dataplane.shared.elements";
  if (shared.slots != 0 && shared.elements > most && c.places.sound(shared_path))
    too_large(shared_path, shared.elements);
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    const std::string path = path_of("jobs", i, "elements");
    const std::uint16_t elements = c.config.jobs[i].elements;
    if (!c.places.sound(path) || is_session(c.config.jobs[i])) continue;
    const std::string size = std::to_string(elements) + " elements";
    if (elements > most) {
      too_large(path, elements);
    } else if (elements > most_there) {
      c.report.warning(
          c.places.of(path), path,
          {size + " do not fit port " + mtu.smallest_port + " (mtu " + std::to_string(mtu.smallest) +
               "): a worker there brings the whole job down to " + std::to_string(most_there),
           "give all ports of the job the same mtu"});
    }
  }
}

}  // namespace

void check_jobs(Checking& c) {
  const auto& jobs = c.config.jobs;
  if (jobs.empty() && c.places.sound("jobs")) {
    c.report.warning(c.places.of("jobs"), "jobs",
                     {"no job is declared: there is nothing to sum",
                      "add one: - {name: demo, workers: 4, token_file: none}"});
  }
  if (jobs.size() > kMaxJobs) {
    const std::string path = "jobs[" + std::to_string(kMaxJobs) + "]";
    c.report.error(
        c.places.of(path), path,
        {"there are " + std::to_string(jobs.size()) + " jobs; a box has room for " + std::to_string(kMaxJobs),
         "remove the rest"});
  }
  check_names(c);
  check_elements(c);
}

}  // namespace tally
