#include "config/impair_section.h"

#include <algorithm>

#include "config/checks.h"
#include "config/config_schema.h"
#include "config/units.h"
#include "text/text.h"

namespace tally::config {
namespace {

impair::ImpairOptions options_of(const ImpairSection& both, const ImpairWaySection& own) noexcept {
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

impair::PortImpairment impairment_of(const ImpairSection& section) noexcept {
  return {.in = options_of(section, section.in), .out = options_of(section, section.out)};
}

std::string faults_text(const impair::ImpairOptions& o) {
  std::string out;
  if (o.loss_ppm != 0) {
    add(out, text::percent_text(o.loss_ppm) + " lost");
    if (o.burst > 1) out += " in bursts of " + std::to_string(o.burst);
  }
  if (o.duplicate_ppm != 0) add(out, text::percent_text(o.duplicate_ppm) + " duplicated");
  if (o.reorder_ppm != 0) add(out, text::percent_text(o.reorder_ppm) + " reordered");
  if (o.corrupt_ppm != 0) add(out, text::percent_text(o.corrupt_ppm) + " corrupted");
  if (o.delay != 0) {
    add(out, "delayed by " + duration_text(o.delay));
    if (o.jitter != 0) out += " +-" + duration_text(o.jitter);
  }
  return out;
}

namespace {

constexpr std::uint32_t kLongestBurst = 1'000;
constexpr TimeNs kLongestDelay = 10 * kSecond;
constexpr std::uint32_t kLongestQueue = 65'536;

ValueType<std::uint32_t> burst_type() { return whole_number_in<std::uint32_t>(1, kLongestBurst); }
ValueType<TimeNs> delay_type() { return time_between(0, kLongestDelay); }
ValueType<std::uint32_t> queue_type() { return whole_number_in<std::uint32_t>(1, kLongestQueue); }

// A key of `in` or `out`: where it does not stand, `impair` itself decides, and nothing is dumped.
template <class T>
SchemaKey<ImpairWaySection> own_key(std::string name, std::optional<T> ImpairWaySection::*member,
                                    const ValueType<T>& type) {
  SchemaKey<ImpairWaySection> key =
      value_key(std::move(name), member,
                converted<std::optional<T>>(
                    type, [](T value) { return std::optional(value); },
                    [](const std::optional<T>& value) { return value.value_or(T{}); }),
                "For this direction only.", "(that of `impair`)");
  key.dump = [member, dump = key.dump](const ImpairWaySection& s, const std::string& indent,
                                       std::string& out) {
    if (s.*member) dump(s, indent, out);
  };
  return key;
}

const Schema<ImpairWaySection>& way_schema() {
  static const Schema<ImpairWaySection> schema{
      own_key("loss", &ImpairWaySection::loss_ppm, percentage()),
      own_key("burst", &ImpairWaySection::burst, burst_type()),
      own_key("duplicate", &ImpairWaySection::duplicate_ppm, percentage()),
      own_key("reorder", &ImpairWaySection::reorder_ppm, percentage()),
      own_key("corrupt", &ImpairWaySection::corrupt_ppm, percentage()),
      own_key("delay", &ImpairWaySection::delay, delay_type()),
      own_key("jitter", &ImpairWaySection::jitter, delay_type()),
      own_key("queue", &ImpairWaySection::queue, queue_type()),
  };
  return schema;
}

// `in` or `out`. A section without keys is not dumped.
SchemaKey<ImpairSection> way_key(std::string name, ImpairWaySection ImpairSection::*member) {
  SchemaKey<ImpairSection> key = section_key(std::move(name), member, way_schema());
  key.dump = [member, dump = key.dump](const ImpairSection& s, const std::string& indent, std::string& out) {
    if (!(s.*member == ImpairWaySection{})) dump(s, indent, out);
  };
  return key;
}

}  // namespace

const Schema<ImpairSection>& impair_schema() {
  static const Schema<ImpairSection> schema{
      value_key(
          "loss", &ImpairSection::loss_ppm, percentage(),
          "Drop this share of the frames, each way, on purpose, to rehearse faults: docs/impairment.md. "
          "With 0% of everything frames do not come past here."),
      value_key("burst", &ImpairSection::burst, burst_type(),
                "How many frames in a row `loss` drops, on average. 1: each frame by itself."),
      value_key("duplicate", &ImpairSection::duplicate_ppm, percentage(), "Send this share twice."),
      value_key("reorder", &ImpairSection::reorder_ppm, percentage(),
                "Hold this share back until 1 to 16 later frames have come, or for 1ms."),
      value_key("corrupt", &ImpairSection::corrupt_ppm, percentage(), "Flip one random bit in this share."),
      value_key("delay", &ImpairSection::delay, delay_type(), "Let every frame leave so much later."),
      value_key(
          "jitter", &ImpairSection::jitter, delay_type(),
          "Change each frame's delay at random by up to this, more or less; frames overtake each other."),
      value_key("queue", &ImpairSection::queue, queue_type(),
                "Frames that `delay` keeps at most, for each queue of the port and direction; the others are "
                "lost. The mempools grow with it."),
      value_key("seed", &ImpairSection::seed, whole_number(0, ~std::uint64_t{0}),
                "The same seed gives the same faults to the same sequence of frames."),
      way_key("in", &ImpairSection::in),
      way_key("out", &ImpairSection::out),
  };
  return schema;
}

namespace {

// Where a direction's value stands: in its own section, or in `impair`.
std::string place_of(const Checking& c, const std::string& impair, const char* way, const char* key) {
  const std::string own = impair + "." + way + "." + key;
  return c.places.written(own) ? own : impair + "." + key;
}

void check_way(Checking& c, const std::string& impair, const char* way, const impair::ImpairOptions& o) {
  const std::string jitter = place_of(c, impair, way, "jitter");
  const std::string delay = place_of(c, impair, way, "delay");
  if (o.jitter > o.delay && c.sound({jitter, delay})) {
    c.error(jitter,
            "the jitter " + duration_text(o.jitter) + " is longer than the delay " + duration_text(o.delay) +
                " of what goes " + way,
            "no frame can leave before it came: write at most the delay");
  }
  // Between two bursts there is at least one frame that is not lost.
  const std::string burst = place_of(c, impair, way, "burst");
  const std::string loss = place_of(c, impair, way, "loss");
  constexpr std::uint64_t kMillion = 1'000'000;
  const bool bursts = o.burst > 1 && o.loss_ppm < kMillion && c.sound({burst, loss});
  const std::uint64_t kept = kMillion - std::min<std::uint64_t>(o.loss_ppm, kMillion);
  if (bursts && o.loss_ppm > kept * o.burst) {
    c.error(burst,
            "bursts of " + std::to_string(o.burst) + " are too short to lose " +
                text::percent_text(o.loss_ppm) + ", even with one frame between them",
            "write at least " + std::to_string((o.loss_ppm + kept - 1) / kept) + ", or 1: no bursts");
  }
}

}  // namespace

void check_impair(Checking& c, std::size_t port) {
  const std::string path = path_of("ports", port, "impair");
  const impair::PortImpairment impairment = impairment_of(c.config.ports[port].impair);
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
  c.warning(path, words, "remove impair outside of rehearsals");
}

}  // namespace tally::config
