#include <array>
#include <cmath>
#include <exception>
#include <utility>

#include "cluster/cluster_file.h"
#include "config/config_schema.h"
#include "config/load_config.h"
#include "config/yaml.h"
#include "text/text.h"

namespace tally::cluster {
namespace {

using config::Choice;
using config::ReferenceRow;
using config::Schema;
using config::ValueType;
using config::Written;
using planner::Results;
using planner::Routing;

constexpr std::size_t kMaxFileBytes = 1U << 20U;
constexpr std::uint32_t kMaxSwitches = 4'096;
constexpr std::uint32_t kMaxHosts = 65'536;

constexpr std::array<Choice<Routing>, 2> kRoutings{{{"ecmp", Routing::kEcmp}, {"chosen", Routing::kChosen}}};
constexpr std::array<Choice<Results>, 2> kResults{
    {{"counted", Results::kCounted}, {"ignored", Results::kIgnored}}};

// Gbit/s.
ValueType<double> rate() {
  constexpr std::uint64_t kLowest = 1'000;             // 1M
  constexpr std::uint64_t kHighest = 100'000'000'000;  // 100T
  constexpr double kKilobits = 1e6;                    // in a Gbit
  return config::converted<double>(
      config::rate_between(kLowest, kHighest),
      [](std::uint64_t kilobits) { return static_cast<double>(kilobits) / kKilobits; },
      [](const double& gigabits) { return static_cast<std::uint64_t>(std::llround(gigabits * kKilobits)); });
}

ValueType<RackSection::Hosts> hosts_of_rack() {
  const ValueType<Names> names = names_type();
  const ValueType<std::uint64_t> number = config::whole_number(0, kMaxHosts);
  return {"how many in each rack, or their names (gpu[1-128]), shared out in equal parts",
          [=](const Written& w) -> std::optional<RackSection::Hosts> {
            const std::string& text = w.node.text;
            const bool counted = w.node.kind == config::YamlNode::Kind::kScalar && !w.node.quoted &&
                                 !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
            if (counted) {
              const auto each = number.read(w);
              return each ? std::optional(RackSection::Hosts{static_cast<std::size_t>(*each)}) : std::nullopt;
            }
            auto all = names.read(w);
            return all ? std::optional(RackSection::Hosts{0, std::move(*all)}) : std::nullopt;
          },
          [=](const RackSection::Hosts& hosts) {
            return hosts.names.empty() ? std::to_string(hosts.each) : names.print(hosts.names);
          }};
}

ValueType<std::uint32_t> ports_of_switch() {
  ValueType<std::uint32_t> type = config::whole_number_in<std::uint32_t>(2, 48);
  type.form = "an even number from 2 to 48";
  return but_not(type, [](std::uint32_t k, const std::string& text) -> std::optional<config::Complaint> {
    if (k % 2 == 0) return std::nullopt;
    return config::Complaint{text + " is odd",
                             "half of a switch's ports lead up: write " + std::to_string(k + 1)};
  });
}

const Schema<LeafSpineSection>& leaf_spine_schema() {
  using S = LeafSpineSection;
  static const Schema<S> schema{
      required_key("racks", &S::racks, config::whole_number_in<std::uint32_t>(1, kMaxSwitches / 2),
                   "Their names are rack1, rack2 ..."),
      required_key("spines", &S::spines, config::whole_number_in<std::uint32_t>(1, kMaxSwitches / 2),
                   "spine1, spine2 ... Each rack has a link to each."),
      required_key("hosts", &S::hosts, config::whole_number_in<std::uint32_t>(1, 1'024),
                   "In each rack: rack1-1, rack1-2 ..."),
      required_key("nic", &S::nic, rate(), "Of each host's link, each way."),
      required_key("uplink", &S::uplink, rate(), "Of each link between a rack and a spine, each way."),
  };
  return schema;
}

const Schema<FatTreeSection>& fat_tree_schema() {
  using S = FatTreeSection;
  static const Schema<S> schema{
      required_key(
          "k", &S::k, ports_of_switch(),
          "Ports of a switch, even: k pods of k/2 racks and k/2 aggregation switches, k/2 hosts in a rack, "
          "(k/2)^2 cores. rack1 ..., aggregation1 ..., core1 ...; hosts rack1-1 ..."),
      required_key("link", &S::link, rate(), "Of each link between switches, each way."),
      required_key("nic", &S::nic, rate(), "Of each host's link, each way."),
  };
  return schema;
}

const Schema<RackSection>& rack_schema() {
  using S = RackSection;
  static const Schema<S> schema{
      required_key("name", &S::name, names_type(), "A rack and its switch, or several that are alike."),
      required_key("hosts", &S::hosts, hosts_of_rack(), "A number: rack1-1, rack1-2 ... of rack1."),
      required_key("nic", &S::nic, rate(), "Of each host's link, each way."),
      value_key("uplink", &S::uplink, or_word("none", rate()),
                "Of each rack's link to each switch of `uplink_to`, each way."),
      value_key("uplink_to", &S::to, or_word("all", names_type()), "all: every switch of `switches`."),
      value_key(
          "addresses", &S::addresses, networks_type(),
          "Where its hosts have their addresses, a network for each of `name`. For tallyd; further ones: "
          "`places`.",
          "not said"),
  };
  return schema;
}

const Schema<PlaceSection>& place_schema() {
  using S = PlaceSection;
  static const Schema<S> schema{
      required_key("rack", &S::rack, names_type(), "A rack, or several."),
      required_key("addresses", &S::addresses, networks_type(),
                   "Where its hosts have their addresses, a network for each."),
  };
  return schema;
}

const Schema<LinkSection>& link_schema() {
  using S = LinkSection;
  static const Schema<S> schema{
      required_key("from", &S::from, names_type(), "Switches. Several: from each ..."),
      required_key("to", &S::to, names_type(), "... to each of these."),
      required_key("rate", &S::rate, rate(),
                   "Where `racks`, `leaf_spine` or `fat_tree` make a link already, this is what it has."),
      value_key("back", &S::back, or_word("same", rate()), "The other way."),
  };
  return schema;
}

const Schema<BoxSection>& box_schema() {
  using S = BoxSection;
  static const Schema<S> schema{
      required_key("at", &S::at, names_type(),
                   "Switches, each with a box; or racks: all of them, or all: every switch there is."),
      required_key("rate", &S::rate, rate(),
                   "What of contributions one takes in: the least of its card, its cores, its memory."),
      value_key("name", &S::name, names_type(), "One for each of `at`. Else each is called as its switch.",
                "as its switch"),
      value_key("slots", &S::slots, or_word("unlimited", config::size_between(64, config::kGiB * 1024)),
                "Its slot memory: no more than that many bytes are under way in it."),
      value_key("address", &S::address, addresses_type(),
                "One for each of `at`, as jobs name the box in their `boxes`. For tallyd.", "not said"),
  };
  return schema;
}

const Schema<ServerSection>& server_schema() {
  using S = ServerSection;
  static const Schema<S> schema{
      required_key("name", &S::name, names_type(), "Of a parameter server, or of several that are alike."),
      value_key("rack", &S::rack, names_type(), "Each has a host of its own, in these racks by turns.",
                "(or host)"),
      value_key("nic", &S::nic, or_word("none", rate()), "Of that host's link, each way: with `rack`."),
      value_key("host", &S::host, names_type(), "Hosts that are there already, one for each.", "(or rack)"),
      value_key("ingress", &S::ingress, or_word("nic", rate()),
                "What it can merge; nic: as much as its link."),
      value_key(
          "address", &S::address, addresses_type(),
          "One for each of `name`. For tallyd, where servers in one rack differ; else any of a rack's is "
          "taken for any.",
          "not said"),
  };
  return schema;
}

const Schema<JobSection>& job_schema() {
  using S = JobSection;
  static const Schema<S> schema{
      required_key("name", &S::name, config::name_up_to(kMaxNameBytes), "For the answers."),
      value_key("workers", &S::workers, or_word("all", counted_names_type()),
                "Of a rack: on its first hosts, or on all that have no server. Of a host: how many on it. "
                "all: on every "
                "host that has no server."),
      value_key("servers", &S::servers, or_word("all", names_type()),
                "Its parameter servers. []: none, the boxes finish the sums."),
      value_key("demand", &S::demand, or_word("unlimited", rate()), "More than this a worker never sends."),
      value_key("gradient", &S::gradient,
                or_word("unknown", config::size_between(1, config::kGiB * 1024 * 1024)),
                "What each worker sends in a step: for the time that takes."),
  };
  return schema;
}

const Schema<ClusterFile>& cluster_schema() {
  using S = ClusterFile;
  static const Schema<S> schema{
      value_key("routing", &S::routing, one_of(kRoutings),
                "Over equal ways. ecmp: the network spreads equally, by itself; chosen: as is best."),
      value_key("results", &S::results, one_of(kResults),
                "counted: results go back the ways of contributions, and take as much of the links; ignored: "
                "they find "
                "their room, as the literature has it."),
      value_key("slot_time", &S::slot_time, config::time_between(1, 60 * kSecond),
                "How long a chunk holds its slot: the round trip, and how far workers are apart."),
      value_key("switches", &S::switches, names_type(), "Beside those of `racks`: spines and the like.",
                "[]"),
      section_key("leaf_spine", &S::leaf_spine, leaf_spine_schema()),
      section_key("fat_tree", &S::fat_tree, fat_tree_schema()),
      list_key("racks", &S::racks, rack_schema()),
      list_key("places", &S::places, place_schema()),
      list_key("links", &S::links, link_schema()),
      list_key("boxes", &S::boxes, box_schema()),
      list_key("servers", &S::servers, server_schema()),
      list_key("jobs", &S::jobs, job_schema()),
  };
  return schema;
}

std::vector<ReferenceRow> cluster_rows() {
  std::vector<ReferenceRow> rows;
  describe_section(cluster_schema(), "", rows);
  return rows;
}

Cluster read_cluster(const config::YamlSource& source, config::Report& report) {
  check_text(source, report);
  if (report.has_errors()) return {};
  auto root = config::parse_yaml(source, report);
  if (!root) return {};
  ClusterFile file;
  config::Places places;
  config::Reading reading{report, places, cluster_rows};
  if (root->at.line == 0) root->at = {1, 1};
  read_section(Written{*root, "", reading}, cluster_schema(), file);
  if (root->kind != config::YamlNode::Kind::kMap) return {};
  return resolved({file, places, report});
}

}  // namespace

tl::expected<LoadedCluster, config::Diagnostics> load_cluster_text(std::string text,
                                                                   const std::string& name) {
  try {
    const config::YamlSource source(name, std::move(text));
    config::Report report(source);
    Cluster cluster = read_cluster(source, report);
    if (report.has_errors()) return tl::unexpected<config::Diagnostics>(report.take());
    return LoadedCluster{std::move(cluster), report.take()};
  } catch (const std::exception& e) {
    return tl::unexpected<config::Diagnostics>(config::about_the_file(
        name, {std::string("reading it failed: ") + e.what(), "this is a defect of the program; report it"}));
  }
}

tl::expected<LoadedCluster, config::Diagnostics> load_cluster(const std::string& path) {
  auto file = config::read_file(path, kMaxFileBytes);
  if (!file)
    return tl::unexpected<config::Diagnostics>(config::about_the_file(path, std::move(file.error())));
  return load_cluster_text(std::move(file->text), path);
}

std::string cluster_reference() {
  std::string out;
  std::string section = "none yet";
  for (const ReferenceRow& row : cluster_rows()) {
    const std::size_t dot = row.path.rfind('.');
    const std::string here = dot == std::string::npos ? "" : row.path.substr(0, dot);
    if (here != section) {
      section = here;
      out += here.empty() ? "\n## Top level\n\n" : "\n## `" + here + "`\n\n";
      out += "| key | value | default | meaning |\n|---|---|---|---|\n";
    }
    const bool is_value = !row.fallback.starts_with('(') && row.fallback.find(' ') == std::string::npos;
    out += "| `" + row.path.substr(dot == std::string::npos ? 0 : dot + 1) + "` | " + row.form + " | " +
           (is_value ? "`" + row.fallback + "`" : row.fallback) + " | " + row.doc + " |\n";
  }
  return out;
}

}  // namespace tally::cluster
