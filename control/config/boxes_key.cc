// Jobs over several boxes: which boxes they are, and what such a job asks of its other keys.

#include <algorithm>
#include <string>
#include <utility>

#include "config/checks.h"
#include "config/cidr.h"
#include "config/config_schema.h"
#include "config/dialects.h"
#include "members/job_config.h"
#include "members/texts.h"
#include "text/text.h"

namespace tally::config {
namespace {

using members::BoxesConfig;

// Which of them this box is; nothing: none.
std::optional<BoxIndex> index_here(const BoxSection& box, const BoxesConfig& boxes) {
  const auto here = std::ranges::find_if(boxes.addresses, [&](const Ipv6& address) {
    return (box.ipv4 && address == mapped(box.ipv4->address)) || (box.ipv6 && address == box.ipv6->address);
  });
  if (here == boxes.addresses.end()) return std::nullopt;
  return static_cast<BoxIndex>(here - boxes.addresses.begin());
}

std::string own_addresses(const BoxSection& box) {
  std::string own = box.ipv4 ? to_text(box.ipv4->address) : "";
  if (box.ipv6) own += (own.empty() ? "" : " or ") + members::address_text(box.ipv6->address);
  return own;
}

void check_one(Checking& c, std::size_t index, NativeConfig& job) {
  const auto refuse = [&](const char* key, bool wrong, std::string message, std::string help) {
    const std::string boxes = path_of("jobs", index, "boxes");
    const std::string path = path_of("jobs", index, key);
    if (wrong && c.sound({boxes, path}))
      c.error(c.places.written(path) ? path : boxes, std::move(message), std::move(help));
  };
  refuse("discipline", job.discipline != Discipline::kShared,
         "a job over several boxes shares slots by ledger", "write discipline: shared, or leave boxes out");
  refuse("server", job.server != ServerKind::kExternal,
         "what no box of several sees whole is summed by an external server",
         "write server: external, and start tally-ps for the job");
  refuse("results", job.results == ResultsMode::kMulticast, "several boxes send a job's results one by one",
         "write results: unicast");
  refuse("admit", job.admit.has_value(), "groups cannot be over several boxes", "write admit: off");
  if (!c.sound({"box.ipv4", "box.ipv6"})) return;
  if (const auto here = index_here(c.config.box, *job.boxes)) {
    job.boxes->here = *here;
    return;
  }
  refuse("boxes", true, "none of these is this box, " + own_addresses(c.config.box),
         "write the address of every box of the job, this one's too, in the same order at all of them");
}

}  // namespace

ValueType<Ipv6> host_address() {
  return scalar_type<Ipv6>(
      "an address such as 10.0.0.1 or fd00::1",
      [](const std::string& text) -> Parsed<Ipv6> {
        const auto address = text::ip_address(text);
        if (!address)
          return complain(shown(text) + " is no address", "write one without a prefix, as 10.0.0.1");
        return *address;
      },
      [](const Ipv6& address) { return members::address_text(address); });
}

ValueType<std::optional<BoxesConfig>> boxes_type() {
  const auto list = list_of(host_address(), 1, kMaxPlanBoxes, true);
  const ValueType<BoxesConfig> boxes{
      list.form,
      [read = list.read](const Written& w) -> std::optional<BoxesConfig> {
        auto addresses = read(w);
        if (!addresses) return std::nullopt;
        return BoxesConfig{.addresses = std::move(*addresses)};
      },
      [print = list.print](const BoxesConfig& value) { return print(value.addresses); }};
  return or_word("none", boxes);
}

void check_boxes(Checking& c) {
  for (const auto& [i, job] : jobs_of<NativeConfig>(c.config))
    if (i >= c.first && job->boxes) check_one(c, i, *job);
}

}  // namespace tally::config
