// What the dialect of a job asks of its other keys.

#include <string>

#include "checks.h"
#include "dialects.h"

namespace tally {
namespace {

void refuse(Checking& c, const std::string& path, std::string message, std::string help) {
  c.report.error(c.places.of(path), path, {std::move(message), std::move(help)});
}

void check_native(Checking& c, std::size_t job) {
  for (const DialectKey& only : kSessionKeys) {
    const std::string key(only.key);
    const std::string path = path_of("jobs", job, key.c_str());
    if (!c.places.written(path)) continue;
    refuse(c, path, key + " belongs to the dialect switchml: " + std::string(only.why),
           "write dialect: switchml, or remove it");
  }
}

void check_switchml(Checking& c, std::size_t job) {
  for (const DialectKey& only : kNativeKeys) {
    const std::string key(only.key);
    const std::string path = path_of("jobs", job, key.c_str());
    if (!c.places.written(path)) continue;
    refuse(c, path, key + " belongs to the dialect native: " + std::string(only.why), "remove it");
  }
  if (!c.config.box.ipv4 && c.places.sound("box.ipv4")) {
    refuse(c, path_of("jobs", job, "dialect"),
           "SwitchML's clients know only IPv4, and the box has no such address",
           "write box: {ipv4: 10.0.0.1/24}");
  }
}

}  // namespace

void check_dialects(Checking& c) {
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    if (!c.places.sound(path_of("jobs", i, "dialect"))) continue;
    is_session(c.config.jobs[i]) ? check_switchml(c, i) : check_native(c, i);
  }
  check_sessions(c);
}

}  // namespace tally
