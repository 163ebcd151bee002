#include "daemon/fleet_link.h"

#include <algorithm>
#include <string>
#include <utility>

#include "config/cidr.h"
#include "etcd/etcd_store.h"
#include "random/random.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

constexpr std::size_t kMostBadShown = 32;

std::string without_length(const std::string& cidr) { return cidr.substr(0, cidr.find('/')); }

fleet::BoxRecord first_record(const config::Config& config) {
  fleet::BoxRecord self{.name = config.instance,
                        .life = random::word(),
                        .since = unix_now() / kSecond,
                        .cores = static_cast<std::uint32_t>(config.dataplane.cores.size())};
  if (config.box.ipv4) self.addresses.push_back(without_length(config::to_text(*config.box.ipv4)));
  if (config.box.ipv6) self.addresses.push_back(without_length(config::to_text(*config.box.ipv6)));
  return self;
}

fleet::MemberOptions options_of(const config::Config& config) {
  // Without a cluster's file the seat would be taken from who can plan.
  return {.prefix = config.fleet.prefix,
          .id = config.fleet.id.value_or(config.instance),
          .plans = config.planner.cluster.has_value()};
}

}  // namespace

Result<std::unique_ptr<fleet::Store>> FleetLink::store_of(const config::Config& config) {
  const config::FleetSection& section = config.fleet;
  auto store = etcd::EtcdStore::start({.endpoints = section.endpoints,
                                       .user = section.user.value_or(""),
                                       .password_file = section.password_file.value_or(""),
                                       .ca = section.ca.value_or(""),
                                       .certificate = section.cert.value_or(""),
                                       .key = section.key.value_or(""),
                                       .avoid = config.dataplane.cores});
  if (!store) return tl::unexpected<Error>(std::move(store.error()));
  return std::unique_ptr<fleet::Store>(std::move(*store));
}

FleetLink::FleetLink(const config::Config& config, std::unique_ptr<fleet::Store> store, FleetFace face,
                     LogSink log, TimeNs now)
    : section_(config.fleet),
      self_(first_record(config)),
      store_(std::move(store)),
      room_(std::move(face.room)),
      log_(std::move(log)),
      member_(options_of(config), *store_, self_, now),
      homes_(member_, std::move(face.homes), log_),
      plans_(member_, std::move(face.plans), log_),
      next_look_(now) {}

void FleetLink::turn(TimeNs now) {
  if (now < next_turn_) return;
  next_turn_ = now + fleet::Member::kTurn;
  if (now >= next_look_ && !leaving_) {
    next_look_ = now + kBetweenLooks;
    const FleetRoom room = room_();
    self_.free_slots = room.free_slots;
    self_.free_bytes = room.free_bytes;
    self_.rate = room.rate;
    self_.set_rates = plans_.rates_here();
    member_.set_self(self_);
  }
  homes_.turn(now);  // also of a box that leaves: what still runs here goes to who takes its place
  member_.tick(now);
  plans_.turn(now);
  // What became of a job that was declared or withdrawn, the view tells.
  for (const fleet::Outcome& outcome : member_.take_outcomes())
    if (outcome.verdict == fleet::Outcome::Verdict::kUnknown)
      log_(LogLevel::kWarning, "fleet: job '" + outcome.job + "': no certain answer: " + outcome.text);
  tell(now);
}

void FleetLink::tell(TimeNs now) {
  for (const fleet::Note& note : member_.take_notes()) {
    const auto left_out = limit_.take(now);
    if (!left_out) continue;
    log_(note.bad ? LogLevel::kWarning : LogLevel::kInfo, "fleet: " + note.text + left_out_text(*left_out));
  }
}

void FleetLink::leave(TimeNs now) {
  if (std::exchange(leaving_, true)) return;
  member_.leave(now);
}

bool FleetLink::left() const noexcept { return member_.left(); }

std::shared_ptr<const api::FleetStatus> FleetLink::status(TimeNs now) {
  if (status_ && now < status_at_ + fleet::Member::kTurn) return status_;
  const fleet::View& view = member_.view();
  const fleet::Standing& standing = member_.standing();
  auto made = std::make_shared<api::FleetStatus>();
  made->id = member_.id();
  made->prefix = section_.prefix;
  made->endpoints = section_.endpoints;
  made->standing = fleet::name_of(standing.kind);
  made->since = standing.since;
  made->text = standing.text;
  made->known = member_.knows_fleet();
  if (view.planner()) made->planner = view.planner()->record.box;
  made->planner_since = plans_.who().since;
  made->is_planner = member_.planner_since(now) != 0;
  for (const auto& [id, box] : view.boxes())
    made->boxes.push_back({id, box.record.name, box.record.since, box.record.addresses, box.record.rate,
                           box.record.cores, box.record.free_slots, box.record.free_bytes});
  for (const auto& [name, job] : view.jobs()) {
    const auto plan = job.newest_plan();
    const auto left = homes_.left().find(name);
    made->jobs.push_back({name, job.home ? job.home->record.box : "", plan ? plan->number : 0,
                          left != homes_.left().end() ? left->second : ""});
  }
  for (const auto& [key, why] : view.bad()) {
    if (made->bad.size() == kMostBadShown) break;
    made->bad.push_back({key, why});
  }
  made->bad_now = view.bad().size();
  made->bad_total = view.bad_total();
  made->leases_lost = member_.leases_lost();
  made->reads = member_.reads();
  status_ = std::move(made);
  status_at_ = now;
  return status_;
}

}  // namespace tally::daemon
