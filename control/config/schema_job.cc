#include <bit>

#include "job_config.h"
#include "schemas.h"
#include "tally/wire.h"
#include "units.h"

namespace tally {
namespace {

constexpr std::array<Choice<ResultsMode>, 2> kResults{
    {{"unicast", ResultsMode::kUnicast}, {"multicast", ResultsMode::kMulticast}}};

ValueType<std::string> token_path() {
  return scalar_type<std::string>(
      "the path of a file, or none",
      [](const std::string& text) -> Parsed<std::string> {
        if (text.empty()) return complain("the path is empty");
        return text == "none" ? std::string() : text;
      },
      [](const std::string& path) { return path.empty() ? "none" : yaml_text(path); });
}

ValueType<std::uint16_t> elements() {
  constexpr std::uint32_t kStep = kElementGranule;
  ValueType<std::uint16_t> type =
      whole_number_in<std::uint16_t>(kMinElements, static_cast<std::uint16_t>(kMaxElements));
  type.form = "a multiple of 16 from 16 to " + std::to_string(kMaxElements);
  type.read = [read = type.read](const YamlNode& node, const std::string& path, std::uint16_t& out,
                                 Reading& reading) {
    std::uint16_t value = 0;
    if (!read(node, path, value, reading)) return false;
    if (value % kStep != 0) {
      const std::uint32_t below = value / kStep * kStep;
      reading.report.error(node.at, path,
                           {node.text + " is not a multiple of 16",
                            "write " + std::to_string(below) + " or " + std::to_string(below + kStep)});
      return false;
    }
    out = value;
    return true;
  };
  return type;
}

ValueType<std::uint32_t> window() {
  ValueType<std::uint32_t> type = whole_number_in<std::uint32_t>(kMinWindow, kMaxWindow);
  type.form = "a power of two from " + std::to_string(kMinWindow) + " to " + std::to_string(kMaxWindow);
  type.read = [read = type.read](const YamlNode& node, const std::string& path, std::uint32_t& out,
                                 Reading& reading) {
    std::uint32_t value = 0;
    if (!read(node, path, value, reading)) return false;
    if (!std::has_single_bit(value)) {
      reading.report.error(
          node.at, path,
          {node.text + " is not a power of two",
           "write " + std::to_string(std::bit_floor(value)) + " or " + std::to_string(std::bit_ceil(value))});
      return false;
    }
    out = value;
    return true;
  };
  return type;
}

// The wire carries whole milliseconds.
ValueType<TimeNs> lease() {
  ValueType<TimeNs> type = time_between(kMinLease, kMaxLease);
  type.read = [read = type.read](const YamlNode& node, const std::string& path, TimeNs& out,
                                 Reading& reading) {
    TimeNs value = 0;
    if (!read(node, path, value, reading)) return false;
    if (value % kMillisecond != 0) {
      reading.report.error(node.at, path,
                           {node.text + " is not a whole number of milliseconds",
                            "write " + std::to_string(value / kMillisecond) + "ms"});
      return false;
    }
    out = value;
    return true;
  };
  return type;
}

// `off`, or a map of which nothing is built.
ValueType<std::string> stragglers() {
  ValueType<std::string> type = only_word("off", {});
  type.read = [read = type.read](const YamlNode& node, const std::string& path, std::string& out,
                                 Reading& reading) {
    if (node.kind != YamlNode::Kind::kMap) return read(node, path, out, reading);
    report_not_here(node, path, "a time-out for stragglers", "off", reading);
    return false;
  };
  return type;
}

Schema<NothingYet> quota_schema() {
  return {
      fixed_key<NothingYet>("reserved", std::uint32_t{0}, percentage(),
                            "Share of the slots that is guaranteed."),
      fixed_key<NothingYet>("weight", std::uint64_t{1}, whole_number(1, 1000),
                            "Weight in the division of what is free."),
      fixed_key<NothingYet>("cap", std::uint32_t{1'000'000}, percentage(),
                            "Share of the slots never to be exceeded."),
  };
}

SchemaKey<JobSection> fixed_word(const char* name, const char* word, const std::vector<std::string>& later,
                                 const char* doc) {
  return fixed_key<JobSection>(name, std::string(word), only_word(word, later), doc);
}

}  // namespace

const Schema<JobSection>& job_schema() {
  static const Schema<JobSection> schema{
      required_key("name", &JobSection::name, name_up_to(kMaxNameBytes),
                   "What the workers call it (TALLY_JOB)."),
      value_key(
          "token_file", &JobSection::token_file, token_path(),
          "Holds the secret that a worker must show, at most 64 bytes; a line end behind it does not count. "
          "Relative to this file. none: whoever reaches the box may join."),
      required_key("workers", &JobSection::workers, whole_number_in<std::uint16_t>(1, kMaxRanks),
                   "How many ranks the job has; it starts when all have joined."),
      fixed_word("discipline", "pool", {"shared", "fcfs", "preemptive"},
                 "pool: the job has slots of its own, 2 x window of them."),
      value_key(
          "elements", &JobSection::elements, elements(),
          "Most values in a packet; at most what the ports' MTU carries: 352 (IPv6: 336) at 1500, 2224 at "
          "9000. A default that does not fit is lowered.",
          "352"),
      value_key(
          "window", &JobSection::window, window(),
          "Most chunks a worker may have in flight. When slots are short, control gives the largest power "
          "of two that fits."),
      value_key(
          "results", &JobSection::results, one_of(kResults),
          "unicast: a copy for each worker; multicast: one frame per port, which the workers' network must "
          "deliver."),
      value_key(
          "priority", &JobSection::priority, whole_number_in<std::uint8_t>(0, kMaxPriority),
          "The highest priority its packets may carry. Jobs of the discipline pool do not compete by it."),
      fixed_section_key<JobSection>("quota", quota_schema()),
      fixed_word("server", "none", {"embedded", "external"}, "The parameter server behind the slots."),
      value_key("lease", &JobSection::lease, lease(),
                "A worker silent for so long is dead, and the others are told so."),
      fixed_key<JobSection>("stragglers", std::string("off"), stragglers(),
                            "off: every sum waits for all workers."),
      fixed_word("dialect", "native", {"switchml"}, "The packets the workers speak: docs/protocol.md."),
      later_key<JobSection>("decay", "Of the discipline preemptive."),
      later_key<JobSection>("payload", "Of the dialect switchml."),
      later_key<JobSection>("slots", "Of the dialect switchml."),
      later_key<JobSection>("tsi", "Of the dialect switchml."),
      later_key<JobSection>("members", "Of the dialect switchml."),
  };
  return schema;
}

}  // namespace tally
