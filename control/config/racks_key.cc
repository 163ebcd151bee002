// Jobs of racks: how many workers each has, which part this box does, and what such a job asks of its other keys.

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/checks.h"
#include "config/cidr.h"
#include "config/config_schema.h"
#include "config/dialects.h"
#include "members/job_config.h"
#include "members/texts.h"

namespace tally::config {
namespace {

using members::RacksConfig;

template <class T>
struct Part {
  std::function<std::optional<T>(const RacksConfig&)> get;
  std::function<void(RacksConfig&, T)> set;
};

// A key that says a part of what is one value in the job. Written as none it says nothing.
template <class T>
SchemaKey<NativeConfig> part_key(std::string name, Part<T> part, const ValueType<std::optional<T>>& type,
                                 std::string doc, bool always_dumped) {
  const auto of = [part](const NativeConfig& job) {
    return job.racks ? part.get(*job.racks) : std::optional<T>();
  };
  SchemaKey<NativeConfig> key{std::move(name)};
  key.describe = [row = ReferenceRow{key.name, type.form, "none", std::move(doc)}](
                     const std::string& prefix, std::vector<ReferenceRow>& rows) {
    rows.push_back(row);
    rows.back().path = member_path(prefix, row.path);
  };
  key.dump = [name = key.name, of, print = type.print, always_dumped](
                 const NativeConfig& job, const std::string& indent, std::string& out) {
    if (always_dumped || of(job)) out += indent + name + ": " + print(of(job)) + "\n";
  };
  key.compare = [of](const NativeConfig& a, const NativeConfig& b, const std::string& path,
                     std::vector<std::string>& out) {
    if (of(a) != of(b)) out.push_back(path);
  };
  key.read = [part, read = type.read](const Written& w, NativeConfig& job) {
    w.reading.places.put(w.path, w.node.at);
    auto value = read(w);
    if (!value) return w.reading.places.mark_broken(w.path);
    if (!*value) return;
    if (!job.racks) job.racks.emplace();
    part.set(*job.racks, std::move(**value));
  };
  return next_generation(std::move(key));
}

bool is_here(const BoxSection& box, const Ipv6& address) {
  return (box.ipv4 && address == mapped(box.ipv4->address)) || (box.ipv6 && address == box.ipv6->address);
}

// The keys say together what the box is to the job.
bool is_whole(Checking& c, std::size_t index, const RacksConfig& racks) {
  const auto at = [index](const char* key) { return path_of("jobs", index, key); };
  if (!c.sound({at("racks"), at("rack"), at("parent")})) return false;
  const char* const written = racks.rack ? "rack" : "parent";
  if (racks.workers.empty()) {
    c.error(at(written), std::string(written) + " is of a job of racks, and this one has none",
            "write how many workers each rack has, as racks: [8, 8], or remove " + std::string(written));
    return false;
  }
  const bool has_parent = racks.parent != Ipv6{};
  if (racks.rack.has_value() != has_parent) {
    c.error(at(written), "the box of a rack has a number and a parent, and the parent neither",
            racks.rack ? "write parent: and the address of the box that sums the racks, or remove rack"
                       : "write rack: and which of the racks this box has, from 0 on, or remove parent");
    return false;
  }
  if (racks.rack && *racks.rack >= racks.workers.size()) {
    c.error(at("rack"),
            "there is no rack " + std::to_string(*racks.rack) + " of " + std::to_string(racks.workers.size()),
            "write 0 to " + std::to_string(racks.workers.size() - 1));
    return false;
  }
  return true;
}

void check_racks_of(Checking& c, std::size_t index, const NativeConfig& job) {
  const RacksConfig& racks = *job.racks;
  if (!is_whole(c, index, racks)) return;
  const auto refuse = [&](const char* key, bool wrong, const std::string& message, const std::string& help) {
    const std::string path = path_of("jobs", index, key);
    if (wrong && c.sound({path})) c.error(path, message, help);
  };
  refuse("workers", c.places.written(path_of("jobs", index, "workers")),
         "how many workers a job of racks has, racks says: " + std::to_string(racks.ranks_here()) +
             " here, " + std::to_string(racks.world()) + " in all",
         "remove workers");
  refuse("discipline", job.discipline != Discipline::kPool, "a job of racks has slots of its own",
         "write discipline: pool");
  refuse("results", job.results == ResultsMode::kMulticast, "a job of racks has its results one by one",
         "write results: unicast");
  refuse("stragglers", job.stragglers.has_value(), "every sum of a job of racks waits for all workers",
         "write stragglers: off");
  refuse("admit", job.admit.has_value(), "groups have no racks", "write admit: off");
  refuse("boxes", job.boxes.has_value(), "a job is over several boxes, or of racks",
         "remove boxes, or remove racks");
  if (!racks.rack || !c.sound({"box.ipv4", "box.ipv6"})) return;
  const BoxSection& box = c.config.box;
  const std::string parent = members::address_text(racks.parent);
  refuse("parent", is_here(box, racks.parent), parent + " is this box",
         "write the address of the box that sums the racks");
  const bool ipv4 = is_mapped_ipv4(racks.parent);
  refuse("parent", ipv4 ? !box.ipv4 : !box.ipv6,
         parent + " cannot be reached: this box has no " + (ipv4 ? "IPv4" : "IPv6") + " address",
         std::string("give it one (box.") + (ipv4 ? "ipv4" : "ipv6") +
             "), or write an address of the parent that it can reach");
}

}  // namespace

Schema<NativeConfig> racks_keys() {
  const auto numbers = list_of(whole_number_in<std::uint8_t>(1, kMaxRanks), 1, kMaxRacks, false);
  const Part<std::vector<std::uint8_t>> workers{
      [](const RacksConfig& r) { return r.workers.empty() ? std::nullopt : std::optional(r.workers); },
      [](RacksConfig& r, std::vector<std::uint8_t> value) { r.workers = std::move(value); }};
  const Part<std::uint8_t> rack{[](const RacksConfig& r) { return r.rack; },
                                [](RacksConfig& r, std::uint8_t value) { r.rack = value; }};
  const Part<Ipv6> parent{
      [](const RacksConfig& r) { return r.parent == Ipv6{} ? std::nullopt : std::optional(r.parent); },
      [](RacksConfig& r, const Ipv6& value) { r.parent = value; }};
  return {
      part_key("racks", workers, or_word("none", numbers),
               "none: all workers join this box. Else how many workers each rack has, the same list at all "
               "boxes of "
               "the job: a box for each rack sums its workers, and a parent box sums the racks "
               "(docs/protocol_racks.md). Without rack and parent this box is the parent. Takes the place of "
               "workers. Only with discipline: pool, without stragglers, and with results: unicast.",
               true),
      part_key(
          "rack", rack, or_word("none", whole_number_in<std::uint8_t>(0, kMaxRacks - 1)),
          "Only with racks: which of them this box sums, from 0 on. Its workers' ranks follow on those of "
          "the racks before.",
          false),
      part_key("parent", parent, or_word("none", host_address()),
               "Only with rack: the address of the box that sums the racks, in the network of the box's own.",
               false),
  };
}

void complete_racks(Checking& c) {
  for (const auto& [i, job] : jobs_of<NativeConfig>(c.config)) {
    if (i < c.first || !job->racks) continue;
    const RacksConfig& racks = *job->racks;
    const std::size_t count = racks.workers.size();
    if (count != 0 && racks.rack.value_or(0) < count) job->workers = racks.ranks_here();
  }
}

void check_racks(Checking& c) {
  for (const auto& [i, job] : jobs_of<NativeConfig>(c.config))
    if (i >= c.first && job->racks) check_racks_of(c, i, *job);
}

}  // namespace tally::config
