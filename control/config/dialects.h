#pragma once
// What a dialect says of its jobs: each of these functions once for every dialect, in a file of its own like
// sessions_section.cc. The compiler names those that a new dialect lacks.

#include <string>
#include <variant>

#include "config/config_schema.h"
#include "pipeline/fit.h"

namespace tally::config {

struct Checking;
struct ReloadPlan;

// Calls with the default of each dialect, in the order of JobConfig.
template <class Call>
void each_dialect(Call call) {
  [&]<class... Dialect>(const std::variant<Dialect...>&) { (call(Dialect{}), ...); }(JobConfig{});
}

struct DialectKeys {
  std::string doc{};  // of the dialect's word, in the reference
  Schema<JobConfig> keys{};
};
[[nodiscard]] DialectKeys keys_of(const NativeConfig& usual);
[[nodiscard]] DialectKeys keys_of(const SessionConfig& usual);

// What no key can say alone, of all jobs of the dialect.
void check_all(Checking& checking, const NativeConfig& usual);
void check_all(Checking& checking, const SessionConfig& usual);
[[nodiscard]] ValueType<Ipv6> host_address();  // of another box
// Of jobs of racks (racks_key.cc): their keys, what they ask of the others, and `workers`, which follows from them.
[[nodiscard]] Schema<NativeConfig> racks_keys();
void check_racks(Checking& checking);
void complete_racks(Checking& checking);
// Of jobs over several boxes: the value of their key, and what it asks of the others (boxes_key.cc).
[[nodiscard]] ValueType<std::optional<members::BoxesConfig>> boxes_type();
void check_boxes(Checking& checking);
// ... and what the pipelines of a chip ask of them.
void check_fit(Checking& checking, const NativeConfig& usual, const pipeline::Profile& profile);
void check_fit(Checking& checking, const SessionConfig& usual, const pipeline::Profile& profile);

// Slot memory of its own on each core. most: of a window; a session takes what it asks for.
[[nodiscard]] std::uint32_t lines_of(const Config& config, const NativeConfig& job, std::uint32_t most);
[[nodiscard]] std::uint32_t lines_of(const Config& config, const SessionConfig& job, std::uint32_t most);
// False if jobs[index] does not even fit alone, which is reported, or the keys are not sound that say so.
[[nodiscard]] bool check_alone(Checking& checking, std::size_t index, const NativeConfig& job);
[[nodiscard]] bool check_alone(Checking& checking, std::size_t index, const SessionConfig& job);

// What becomes of a job that runs and is wanted otherwise. path: jobs[2], in the wanted configuration.
void plan_change(const NativeConfig& is, const NativeConfig& wanted, const std::string& path,
                 ReloadPlan& plan);
void plan_change(const SessionConfig& is, const SessionConfig& wanted, const std::string& path,
                 ReloadPlan& plan);
// Why packets of the job would not be served by the box as it runs; empty: they would.
[[nodiscard]] std::string why_not_served(const Config& running, const NativeConfig& job);
[[nodiscard]] std::string why_not_served(const Config& running, const SessionConfig& job);

}  // namespace tally::config
