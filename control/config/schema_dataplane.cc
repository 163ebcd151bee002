#include <string_view>

#include "eal_arguments.h"
#include "profile.h"
#include "schemas.h"
#include "tally/ids.h"

namespace tally {
namespace {

using Dataplane = DataplaneSection;

constexpr std::uint16_t kHighestCpu = 1023;

constexpr std::array<Choice<Dataplane::Idle>, 2> kIdle{
    {{"adaptive", Dataplane::Idle::kAdaptive}, {"poll", Dataplane::Idle::kPoll}}};
constexpr std::array<Choice<Dataplane::Execution>, 2> kExecution{
    {{"fused", Dataplane::Execution::kFused}, {"staged", Dataplane::Execution::kStaged}}};
constexpr std::array<Choice<Dataplane::Hugepages>, 3> kHugepages{{{"auto", Dataplane::Hugepages::kAuto},
                                                                  {"on", Dataplane::Hugepages::kOn},
                                                                  {"off", Dataplane::Hugepages::kOff}}};

ValueType<std::string> profile_name() {
  std::vector<std::string> words;
  words.reserve(kProfiles.size());
  for (const auto& profile : kProfiles) words.emplace_back(profile.name);
  const ValueType<std::size_t> index = one_of_words(words, {});
  return {index.form,
          [words, read = index.read](const YamlNode& node, const std::string& path, std::string& out,
                                     Reading& reading) {
            std::size_t at = 0;
            if (!read(node, path, at, reading)) return false;
            out = words[at];
            return true;
          },
          yaml_text};
}

// EAL counts memory in MiB.
ValueType<std::uint64_t> whole_mib() {
  ValueType<std::uint64_t> type = size_between(16 * kMiB, 1024 * kGiB);
  type.read = [read = type.read](const YamlNode& node, const std::string& path, std::uint64_t& out,
                                 Reading& reading) {
    std::uint64_t bytes = 0;
    if (!read(node, path, bytes, reading)) return false;
    if (bytes % kMiB != 0) {
      reading.report.error(node.at, path,
                           {node.text + " is not a whole number of MiB", "round it up to MiB"});
      return false;
    }
    out = bytes;
    return true;
  };
  return type;
}

}  // namespace

const Schema<DataplaneSection>& dataplane_schema() {
  static const Schema<Dataplane> schema{
      value_key("cores", &Dataplane::cores,
                list_of(whole_number_in<std::uint16_t>(0, kHighestCpu), 1, kMaxShards, true),
                "CPUs of the data cores, one thread each; slots are divided among them. Not the CPU of your "
                "workers if they run on the same machine and can be elsewhere."),
      value_key(
          "idle", &Dataplane::idle, one_of(kIdle),
          "What a data core does without packets: sleep up to 1 ms, or poll at 100 % of its CPU for the "
          "lowest latency."),
      value_key(
          "profile", &Dataplane::profile, profile_name(),
          "The chip whose limits the programs are compared with: that of the native jobs, and that of the "
          "sessions with each `tsi`, each by itself. `commodity` is this machine: no limits."),
      value_key("strict", &Dataplane::strict, true_or_false(),
                "true: refuse a configuration with a program that would not fit the profile."),
      value_key("execution", &Dataplane::execution, one_of(kExecution),
                "`fused` is the product; `staged` is slow and checks the chip's rules at every access."),
      value_key("memory", &Dataplane::memory, whole_mib(),
                "All memory of the data plane: packets, rings and slots. Hugepages where there are any."),
      value_key(
          "slots", &Dataplane::slots, size_between(64 * kKiB, 64 * kGiB),
          "Slot memory, part of `memory`, all data cores together. A job of the discipline pool takes 2 x "
          "window entries of 64 + 4 x elements bytes, one of the discipline shared 32 bytes for each chunk "
          "of its window."),
      section_key("shared", &Dataplane::shared, shared_schema()),
      value_key("hugepages", &Dataplane::hugepages, one_of(kHugepages),
                "auto: use them if enough are free, otherwise ordinary memory with a warning."),
      value_key(
          "eal", &Dataplane::eal, list_of(eal_argument(), 0, 64, false),
          "More arguments for DPDK's EAL, for what has no key here. What tallyd sets itself is refused."),
  };
  return schema;
}

}  // namespace tally
