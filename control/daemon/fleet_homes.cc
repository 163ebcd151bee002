#include "daemon/fleet_homes.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
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
  own.record.spec = {{"workers", job.workers},
                     {"servers", job.servers},
                     {"boxes", own.addresses},
                     {fleet::kTokenCheck, job.token_check}};
  own.at_home = job.boxes.home == job.boxes.here;
  if (job.needs != members::HomeNeeds{})
    own.generation = {{"elements", job.needs.elements}, {"largest_window", job.needs.largest_window}};
  return own;
}

// As a home wrote it; nothing where it wrote nothing, or what this box does not understand.
members::HomeNeeds needs_of(const fleet::JobRecord& record) {
  const auto said = record.spec.find(fleet::kGeneration);
  if (said == record.spec.end() || !said->is_object()) return {};
  const auto number = [&](const char* key, std::uint32_t most) {
    const auto at = said->find(key);
    const bool fits = at != said->end() && at->is_number_unsigned() && at->get<std::uint64_t>() <= most;
    return fits ? at->get<std::uint32_t>() : 0U;
  };
  const std::uint32_t window = number("largest_window", members::kMaxWindow);
  return {static_cast<std::uint16_t>(number("elements", kMaxElements)),
          std::has_single_bit(window) ? window : 0U};
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

FleetHomes::FleetHomes(fleet::Member& member, Face face, LogSink log)
    : member_(member), face_(std::move(face)), log_(std::move(log)) {}

void FleetHomes::turn(TimeNs now) {
  const std::vector<SharedJob> jobs = face_.jobs();
  withdraw_gone(jobs, now);
  const auto is_here = [&](const auto& one) {
    return std::ranges::find(jobs, one.first, &SharedJob::name) != jobs.end();
  };
  std::erase_if(homeless_, std::not_fn(is_here));
  std::erase_if(left_, std::not_fn(is_here));
  std::map<std::string, fleet::OwnJob> own;
  for (const SharedJob& job : jobs) look_at_seat(job, own.emplace(job.name, own_job(job)).first->second, now);
  member_.set_jobs(std::move(own));
  for (const SharedJob& job : jobs) {
    // What was read before the store was gone moves nothing: all of it was followed then.
    if (!member_.knows_fleet() || !follow(job)) tell_of_home(job, now);
  }
  if (member_.knows_fleet()) look_at_boxes(now);
}

bool FleetHomes::has_no_home(const std::string& job) const {
  const auto seen = member_.view().jobs().find(job);
  return seen == member_.view().jobs().end() || (!seen->second.home && !seen->second.bad_home);
}

// Whether this box could carry it, and says so: said when the job is left, not whenever the numbers change.
void FleetHomes::look_at_seat(const SharedJob& job, fleet::OwnJob& own, TimeNs now) {
  own.objection = job.no_room;
  if (!member_.knows_fleet() || !has_no_home(job.name)) {
    homeless_.erase(job.name);
    if (own.objection.empty()) left_.erase(job.name);
  } else {
    homeless_.try_emplace(job.name, now);
    if (own.objection.empty()) {
      const auto seen = member_.view().jobs().find(job.name);
      const bool declared = seen != member_.view().jobs().end() && seen->second.record;
      own.objection =
          face_.objection(job.name, declared ? needs_of(*seen->second.record) : members::HomeNeeds{});
    }
  }
  std::string why =
      homeless_.contains(job.name) ? fleet::objection_to_home(member_.view(), own) : own.objection;
  if (why.empty()) return void(left_.erase(job.name));
  if (!left_.contains(job.name)) {
    const std::string what = member_.is_home_of(job.name, now)
                                 ? "this box is its home, and gives that back: "
                                 : "it has no home, and this box does not take it: ";
    log_(LogLevel::kWarning, "job '" + job.name + "': " + what + why, {.kind = "job.home", .job = job.name});
  }
  left_[job.name] = std::move(why);
}

// The home is sure of itself as long as its lease cannot have ended. Another box knows that a job has no home as long as
// its own lease says that it hears what the fleet says; who was the home and lives is asked all the same.
void FleetHomes::tell_of_home(const SharedJob& job, TimeNs now) {
  members::HomeNews news{.sure_until = member_.home_until(job.name)};
  const auto homeless = homeless_.find(job.name);
  if (job.boxes.home != job.boxes.here && homeless != homeless_.end() && now >= homeless->second + kSettled &&
      member_.hears_fleet(now)) {
    news.nobody = std::ranges::none_of(member_.view().boxes(), [&](const auto& box) {
      return box_at(job, box.second.record) == job.boxes.home;
    });
  }
  face_.hear_of_home(job.name, news);
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
      if (const auto address = text::ip_address(text)) face_.box_seen(*address);
  }
}

// A job that went from here is another box's, if it has it too.
void FleetHomes::withdraw_gone(const std::vector<SharedJob>& jobs, TimeNs now) {
  // As long as the view says that this life of the box has the seat: what went while the store was away, or while its
  // seat was on its way, is given back when that is known. Nobody else could take it.
  for (const auto& [name, seen] : member_.view().jobs())
    if (member_.is_home_of(name, now) && std::ranges::find(jobs, name, &SharedJob::name) == jobs.end())
      (void)member_.withdraw(name, now);
}

bool FleetHomes::follow(const SharedJob& job) {
  const fleet::View& view = member_.view();
  const auto seen = view.jobs().find(job.name);
  if (seen == view.jobs().end() || !seen->second.home) return false;
  const std::string& id = seen->second.home->record.box;
  const auto box = view.boxes().find(id);
  if (box == view.boxes().end()) return false;  // its seat goes with it, or it comes back
  const auto at = box_at(job, box->second.record);
  if (!at) {
    complain_once(job.name, "its home in the fleet is box " + id + ", which is none of its boxes here");
    return false;
  }
  complaint_.erase(job.name);
  if (*at == job.boxes.home) return false;
  const Ipv6& home = job.boxes.addresses[*at];
  const Ipv6& former = job.boxes.addresses[job.boxes.home];
  if (auto done = face_.set_home(job.name, home); !done) {
    complain_once(job.name, done.error().text());
    return false;
  }
  const std::string was =
      job.boxes.home == job.boxes.here ? "this box was it" : members::address_text(former) + " was it";
  const std::string is = *at == job.boxes.here
                             ? "this box is its home now"
                             : "box " + id + " at " + members::address_text(home) + " is its home now";
  log_(LogLevel::kInfo, "job '" + job.name + "': " + is + ", " + was, {.kind = "job.home", .job = job.name});
  return true;
}

void FleetHomes::complain_once(const std::string& job, const std::string& text) {
  if (std::exchange(complaint_[job], text) == text) return;
  log_(LogLevel::kWarning, "job '" + job + "': " + text, {.job = job});
}

}  // namespace tally::daemon
