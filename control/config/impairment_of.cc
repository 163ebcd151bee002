#include "impairment_of.h"

#include "units.h"

namespace tally {
namespace {

ImpairOptions options_of(const ImpairSection& both, const ImpairWaySection& own) noexcept {
  return {.loss_ppm = own.loss_ppm.value_or(both.loss_ppm),
          .burst = own.burst.value_or(both.burst),
          .duplicate_ppm = own.duplicate_ppm.value_or(both.duplicate_ppm),
          .reorder_ppm = own.reorder_ppm.value_or(both.reorder_ppm),
          .corrupt_ppm = own.corrupt_ppm.value_or(both.corrupt_ppm),
          .delay = own.delay.value_or(both.delay),
          .jitter = own.jitter.value_or(both.jitter),
          .queue = own.queue.value_or(both.queue),
          .seed = both.seed};
}

void add(std::string& out, const std::string& words) { out += (out.empty() ? "" : ", ") + words; }

}  // namespace

PortImpairment impairment_of(const ImpairSection& section) noexcept {
  return {.in = options_of(section, section.in), .out = options_of(section, section.out)};
}

std::string faults_text(const ImpairOptions& o) {
  std::string out;
  if (o.loss_ppm != 0) {
    add(out, percent_text(o.loss_ppm) + " lost");
    if (o.burst > 1) out += " in bursts of " + std::to_string(o.burst);
  }
  if (o.duplicate_ppm != 0) add(out, percent_text(o.duplicate_ppm) + " duplicated");
  if (o.reorder_ppm != 0) add(out, percent_text(o.reorder_ppm) + " reordered");
  if (o.corrupt_ppm != 0) add(out, percent_text(o.corrupt_ppm) + " corrupted");
  if (o.delay != 0) {
    add(out, "delayed by " + duration_text(o.delay));
    if (o.jitter != 0) out += " +-" + duration_text(o.jitter);
  }
  return out;
}

}  // namespace tally
