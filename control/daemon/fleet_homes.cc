#include "daemon/fleet_homes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "members/texts.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

std::vector<std::string> addresses_of(const SharedJob& job) {
  std::vector<std::string> all;
  for (const Ipv6& address : job.boxes.addresses) all.push_back(members::address_text(address));
  return all;
}

fleet::OwnJob own_job(const SharedJob& job) {
  fleet::OwnJob own{.record = {.name = job.name}, .addresses = addresses_of(job)};
  own.record.spec = {{"workers", job.workers}, {"servers", job.servers}, {"boxes", own.addresses}};
  own.at_home = job.boxes.home == job.boxes.here;
  return own;
}

// Of the job's boxes the one that says it is there; by value, not by how it is written.
std::optional<std::size_t> box_at(const SharedJob& job, const fleet::BoxRecord& record) {
  for (const std::string& text : record.addresses) {
    const auto address = text::ip_address(text);
    const auto at = address ? std::ranges::find(job.boxes.addresses, *address) : job.boxes.addresses.end();
    if (at != job.boxes.addresses.end()) return at - job.boxes.addresses.begin();
  }
  return std::nullopt;
}

}  // namespace

FleetHomes::FleetHomes(fleet::Member& member, Jobs jobs, SetHome set_home, BoxSeen box_seen, LogSink log)
    : member_(member),
      jobs_(std::move(jobs)),
      set_home_(std::move(set_home)),
      box_seen_(std::move(box_seen)),
      log_(std::move(log)) {}

void FleetHomes::turn(TimeNs now) {
  const std::vector<SharedJob> jobs = jobs_();
  give_back(jobs, now);
  std::map<std::string, fleet::OwnJob> own;
  for (const SharedJob& job : jobs) own.emplace(job.name, own_job(job));
  member_.set_jobs(std::move(own));
  // What was read before the store was gone moves nothing: all of it was followed then.
  if (!member_.knows_fleet()) return;
  for (const SharedJob& job : jobs) follow(job);
  look_at_boxes(now);
}

// Each life of a box once.
void FleetHomes::look_at_boxes(TimeNs now) {
  const auto& boxes = member_.view().boxes();
  std::erase_if(boxes_, [&](const auto& known) { return !boxes.contains(known.first); });
  for (const auto& [id, box] : boxes) {
    if (id == member_.id()) continue;
    SeenLife& known = boxes_[id];
    if (known.created != box.created) known = {.created = box.created, .since = now};
    if (known.told || now < known.since + kSettled) continue;
    known.told = true;
    for (const std::string& text : box.record.addresses)
      if (const auto address = text::ip_address(text)) box_seen_(*address);
  }
}

// A job that went from here is another box's, if it has it too.
void FleetHomes::give_back(const std::vector<SharedJob>& jobs, TimeNs now) {
  // As long as the view says that this life of the box has the seat: what went while the store was away, or while its
  // seat was on its way, is given back when that is known. Nobody else could take it.
  for (const auto& [name, seen] : member_.view().jobs())
    if (member_.is_home_of(name, now) && std::ranges::find(jobs, name, &SharedJob::name) == jobs.end())
      (void)member_.withdraw(name, now);
}

void FleetHomes::follow(const SharedJob& job) {
  const fleet::View& view = member_.view();
  const auto seen = view.jobs().find(job.name);
  if (seen == view.jobs().end() || !seen->second.home) return;
  const std::string& id = seen->second.home->record.box;
  const auto box = view.boxes().find(id);
  if (box == view.boxes().end()) return;  // its seat goes with it, or it comes back
  const auto at = box_at(job, box->second.record);
  if (!at)
    return complain_once(job.name,
                         "its home in the fleet is box " + id + ", which is none of its boxes here");
  complaint_.erase(job.name);
  if (*at == job.boxes.home) return;
  const Ipv6& home = job.boxes.addresses[*at];
  const Ipv6& former = job.boxes.addresses[job.boxes.home];
  if (auto done = set_home_(job.name, home); !done) return complain_once(job.name, done.error().text());
  const std::string was =
      job.boxes.home == job.boxes.here ? "this box was it" : members::address_text(former) + " was it";
  const std::string is = *at == job.boxes.here
                             ? "this box is its home now"
                             : "box " + id + " at " + members::address_text(home) + " is its home now";
  log_(LogLevel::kInfo, "job '" + job.name + "': " + is + ", " + was, {.kind = "job.home", .job = job.name});
}

void FleetHomes::complain_once(const std::string& job, const std::string& text) {
  if (std::exchange(complaint_[job], text) == text) return;
  log_(LogLevel::kWarning, "job '" + job + "': " + text, {.job = job});
}

}  // namespace tally::daemon
