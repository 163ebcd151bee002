#include "config/dataplane_section.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "config/checks.h"
#include "config/config_schema.h"
#include "config/dialects.h"
#include "jobs/job_table.h"
#include "pipeline/fit.h"
#include "tally/ids.h"
#include "text/text.h"

namespace tally::config {
namespace {

using Dataplane = DataplaneSection;

constexpr std::uint16_t kHighestCpu = 1023;

constexpr std::array<Choice<bool>, 2> kIdle{{{"adaptive", false}, {"poll", true}}};
constexpr std::array<Choice<bool>, 2> kExecution{{{"fused", false}, {"staged", true}}};
constexpr std::array<Choice<std::optional<bool>>, 3> kHugepages{
    {{"auto", std::nullopt}, {"on", true}, {"off", false}}};

ValueType<std::string> profile_name() {
  std::vector<std::string> words;
  words.reserve(std::size(pipeline::kProfiles));
  for (const auto& profile : pipeline::kProfiles) words.emplace_back(profile.name);
  return converted<std::string>(
      one_of_words(words), [words](std::size_t at) { return words[at]; },
      [words](const std::string& name) {
        return static_cast<std::size_t>(std::ranges::find(words, name) - words.begin());
      });
}

// EAL counts memory in MiB.
ValueType<std::uint64_t> whole_mib() {
  return but_not(size_between(16 * kMiB, 1024 * kGiB),
                 [](std::uint64_t bytes, const std::string& text) -> std::optional<Complaint> {
                   if (bytes % kMiB == 0) return std::nullopt;
                   return Complaint{text + " is not a whole number of MiB", "round it up to MiB"};
                 });
}

}  // namespace

const Schema<DataplaneSection>& dataplane_schema() {
  static const Schema<Dataplane> schema{
      value_key("cores", &Dataplane::cores,
                list_of(whole_number_in<std::uint16_t>(0, kHighestCpu), 1, kMaxShards, true),
                "CPUs of the data cores, one thread each; slots are divided among them. Not the CPU of your "
                "workers if they run on the same machine and can be elsewhere."),
      value_key(
          "idle", &Dataplane::poll, one_of(kIdle),
          "What a data core does without packets: sleep up to 1 ms, or poll at 100 % of its CPU for the "
          "lowest latency."),
      value_key(
          "profile", &Dataplane::profile, profile_name(),
          "The chip whose limits the programs are compared with: that of the native jobs, and that of the "
          "sessions with each `tsi`, each by itself. `commodity` is this machine: no limits."),
      value_key("strict", &Dataplane::strict, true_or_false(),
                "true: refuse a configuration with a program that would not fit the profile."),
      value_key("execution", &Dataplane::staged, one_of(kExecution),
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

namespace {

struct Owned {
  std::string_view option;
  std::string_view instead;
};

constexpr std::string_view kCores = "set dataplane.cores";
constexpr std::string_view kDevices = "list the device in ports";
constexpr std::string_view kMemory = "set dataplane.memory and dataplane.hugepages";
constexpr std::string_view kInstance = "set instance: it names the files of DPDK too";
constexpr std::string_view kNever = "remove it";

// Short options first: their value may follow without a space.
constexpr std::array kOwned{
    Owned{"-l", kCores},
    Owned{"-c", kCores},
    Owned{"-s", kCores},
    Owned{"-S", kCores},
    Owned{"-a", kDevices},
    Owned{"-b", kDevices},
    Owned{"-w", kDevices},
    Owned{"-m", kMemory},
    Owned{"-h", kNever},
    Owned{"-v", kNever},
    Owned{"--lcores", kCores},
    Owned{"--main-lcore", kCores},
    Owned{"--allow", kDevices},
    Owned{"--block", kDevices},
    Owned{"--vdev", kDevices},
    Owned{"--no-pci", kDevices},
    Owned{"--socket-mem", kMemory},
    Owned{"--socket-limit", kMemory},
    Owned{"--in-memory", kMemory},
    Owned{"--no-huge", kMemory},
    Owned{"--no-shconf", kMemory},
    Owned{"--huge-dir", kMemory},
    Owned{"--huge-unlink", kMemory},
    Owned{"--legacy-mem", kMemory},
    Owned{"--file-prefix", kInstance},
    Owned{"--proc-type", kNever},
    Owned{"--no-telemetry", kNever},
    Owned{"--syslog", kNever},
    Owned{"--help", kNever},
    Owned{"--version", kNever},
};

// getopt_long takes every unambiguous beginning of a long option; an ambiguous one is refused by EAL itself.
bool means(std::string_view argument, std::string_view option) {
  if (!option.starts_with("--")) return argument.starts_with(option);
  const std::string_view name = argument.substr(0, argument.find('='));
  return name.size() > 2 && option.starts_with(name);
}

Parsed<std::string> parse_argument(const std::string& text) {
  if (text.empty() || text == "--" || text == "-") {
    return complain(shown(text) + " is not an argument of EAL", "write one argument, such as --telemetry");
  }
  if (text.find(' ') != std::string::npos) {
    return complain(shown(text) + " contains a space", "write each argument by itself: [\"-n\", \"4\"]");
  }
  const auto* const owned =
      std::find_if(kOwned.begin(), kOwned.end(), [&](const Owned& o) { return means(text, o.option); });
  if (owned == kOwned.end()) return text;
  return complain(std::string(owned->option) + " is set by tallyd itself", std::string(owned->instead));
}

}  // namespace

ValueType<std::string> eal_argument() {
  return scalar_type<std::string>("an argument of EAL, such as `--telemetry`", parse_argument, yaml_text);
}

void complain_of_fit(Checking& c, const std::string& program, const pipeline::FitReport& report,
                     const char* to_fit) {
  std::string what =
      program + " does not fit " + c.config.dataplane.profile + ": " + text::listed(report.violations, "; ");
  const std::string path = "dataplane.profile";
  if (c.config.dataplane.strict)
    c.error(path, std::move(what), std::string(to_fit) + ", choose another profile, or write strict: false");
  else
    c.warning(path, std::move(what), "it runs here all the same; strict: true would refuse it");
}

void check_fit(Checking& c, const NativeConfig& /*usual*/, const pipeline::Profile& profile) {
  const DataplaneSection& d = c.config.dataplane;
  std::uint64_t entries = 0;  // on one core
  std::uint32_t elements = 0;
  for (const auto& [i, job] : jobs_of<NativeConfig>(c.config)) {
    if (shares_slots(job->discipline)) continue;
    entries += jobs::pool_entries(job->window, static_cast<std::uint32_t>(d.cores.size()));
    elements = std::max<std::uint32_t>(elements, job->elements);
  }
  if (const std::uint32_t shared = shared_entries_per_core(d); shared != 0) {
    entries += shared;
    elements = std::max<std::uint32_t>(elements, d.shared.elements);
  }
  if (entries == 0) return;
  const pipeline::FitReport report =
      pipeline::fit(pipeline::pool_program(entries, elements, kMaxJobs + 1, profile), profile);
  if (!report.fits()) complain_of_fit(c, "the program", report, "lower windows or elements");
}

void check_profile(Checking& c) {
  const auto profile = pipeline::profile_named(c.config.dataplane.profile);
  if (!profile || !profile->limited || c.config.jobs.empty() || c.report.has_errors()) return;
  each_dialect([&](const auto& usual) { check_fit(c, usual, *profile); });
}

}  // namespace tally::config
