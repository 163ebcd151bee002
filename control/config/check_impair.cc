#include <algorithm>
#include <string>

#include "checks.h"
#include "impairment_of.h"
#include "units.h"

namespace tally {
namespace {

// Where a direction's value stands: in its own section, or in `impair`.
std::string place_of(const Checking& c, const std::string& impair, const char* way, const char* key) {
  const std::string own = impair + "." + way + "." + key;
  return c.places.written(own) ? own : impair + "." + key;
}

void check_way(Checking& c, const std::string& impair, const char* way, const ImpairOptions& o) {
  const std::string jitter = place_of(c, impair, way, "jitter");
  const std::string delay = place_of(c, impair, way, "delay");
  if (o.jitter > o.delay && c.places.sound(jitter) && c.places.sound(delay)) {
    c.report.error(c.places.of(jitter), jitter,
                   {"the jitter " + duration_text(o.jitter) + " is longer than the delay " +
                        duration_text(o.delay) + " of what goes " + way,
                    "no frame can leave before it came: write at most the delay"});
  }
  // Between two bursts there is at least one frame that is not lost.
  const std::string burst = place_of(c, impair, way, "burst");
  const std::string loss = place_of(c, impair, way, "loss");
  constexpr std::uint64_t kMillion = 1'000'000;
  const bool bursts = o.burst > 1 && o.loss_ppm < kMillion && c.places.sound(burst) && c.places.sound(loss);
  const std::uint64_t kept = kMillion - std::min<std::uint64_t>(o.loss_ppm, kMillion);
  if (bursts && o.loss_ppm > kept * o.burst) {
    c.report.error(
        c.places.of(burst), burst,
        {"bursts of " + std::to_string(o.burst) + " are too short to lose " + percent_text(o.loss_ppm) +
             ", even with one frame between them",
         "write at least " + std::to_string((o.loss_ppm + kept - 1) / kept) + ", or 1: no bursts"});
  }
}

}  // namespace

void check_impair(Checking& c, std::size_t port) {
  const std::string path = path_of("ports", port, "impair");
  const PortImpairment impairment = impairment_of(c.config.ports[port].impair);
  check_way(c, path, "in", impairment.in);
  if (!(impairment.in == impairment.out)) check_way(c, path, "out", impairment.out);
  const std::string in = faults_text(impairment.in);
  const std::string out = faults_text(impairment.out);
  if (in.empty() && out.empty()) return;
  std::string words = "frames are impaired on purpose, ";
  if (in == out)
    words += "in and out: " + in;
  else
    words += (in.empty() ? "" : "in: " + in) + (in.empty() || out.empty() ? "" : "; ") +
             (out.empty() ? "" : "out: " + out);
  c.report.warning(c.places.of(path), path, {words, "remove impair outside of rehearsals"});
}

}  // namespace tally
