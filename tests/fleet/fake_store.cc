#include "fake_store.h"

#include <algorithm>
#include <limits>

namespace tally {
namespace {

using fleet::Fault;

tl::unexpected<fleet::StoreError> no(Fault fault, std::string text, bool perhaps = false) {
  return tl::unexpected(fleet::StoreError{fault, std::move(text), perhaps});
}

}  // namespace

void FakeServer::wipe() {
  ++incarnation_;
  revision_ = 1;
  compacted_ = 0;
  pairs_.clear();
  history_.clear();
  leases_.clear();
}

void FakeServer::end_lease(fleet::LeaseId lease) {
  leases_.erase(lease);
  std::vector<std::string> keys;
  for (const auto& [key, pair] : pairs_)
    if (pair.lease == lease) keys.push_back(key);
  if (keys.empty()) return;
  ++revision_;
  for (const std::string& key : keys) {
    pairs_.erase(key);
    history_.push_back({true, {.key = key, .modified = revision_}});
  }
}

void FakeServer::advance(TimeNs now) {
  now_ = std::max(now_, now);
  if (frozen_) return;
  std::vector<std::pair<TimeNs, fleet::LeaseId>> over;
  for (const auto& [id, lease] : leases_)
    if (lease.until <= now_) over.emplace_back(lease.until, id);
  std::sort(over.begin(), over.end());
  for (const auto& [until, id] : over) end_lease(id);
}

std::vector<fleet::Pair> FakeServer::read(const fleet::Read& read, std::uint64_t& count) const {
  std::vector<fleet::Pair> found;
  for (auto at = pairs_.lower_bound(read.what.key); at != pairs_.end(); ++at) {
    const bool within = read.what.prefix ? at->first.starts_with(read.what.key) : at->first == read.what.key;
    if (!within) break;
    found.push_back(at->second);
  }
  count = found.size();
  if (read.newest && found.size() > 1) {
    const auto newest =
        std::max_element(found.begin(), found.end(),
                         [](const fleet::Pair& a, const fleet::Pair& b) { return a.modified < b.modified; });
    found = {*newest};
  }
  if (read.newest && !found.empty()) found.front().value.clear();
  return found;
}

bool FakeServer::put(const fleet::Put& put, fleet::Revision at) {
  const auto there = pairs_.find(put.key);
  const fleet::Revision created = there == pairs_.end() ? at : there->second.created;
  const fleet::Pair pair{put.key, put.value, created, at, put.lease};
  pairs_[put.key] = pair;
  history_.push_back({false, pair});
  return true;
}

bool FakeServer::erase(const std::string& from, const std::function<bool(const std::string&)>& within,
                       fleet::Revision at) {
  bool any = false;
  for (auto it = pairs_.lower_bound(from); it != pairs_.end() && within(it->first); it = pairs_.erase(it)) {
    history_.push_back({true, {.key = it->first, .modified = at}});
    any = true;
  }
  return any;
}

bool FakeServer::step(const fleet::Step& step, fleet::Revision at, fleet::Reply& reply) {
  if (const auto* const one = std::get_if<fleet::Read>(&step); one != nullptr) {
    std::uint64_t count = 0;
    reply.reads.push_back(read(*one, count));
    return false;
  }
  if (const auto* const one = std::get_if<fleet::Put>(&step); one != nullptr) return put(*one, at);
  if (const auto* const one = std::get_if<fleet::EraseUpTo>(&step); one != nullptr)
    return erase(
        one->key, [&](const std::string& key) { return key < one->end; }, at);
  const auto& what = std::get<fleet::Erase>(step).what;
  return erase(
      what.key,
      [&](const std::string& key) { return what.prefix ? key.starts_with(what.key) : key == what.key; }, at);
}

bool FakeServer::holds(const fleet::Compare& compare) const {
  const auto at = pairs_.find(compare.key);
  switch (compare.of) {
    case fleet::Compare::Of::kCreated:
      return (at == pairs_.end() ? 0 : at->second.created) == compare.revision;
    case fleet::Compare::Of::kModified:
      return (at == pairs_.end() ? 0 : at->second.modified) == compare.revision;
    case fleet::Compare::Of::kValue:
      return at != pairs_.end() && at->second.value == compare.value;
  }
  return false;
}

FakeServer::Result FakeServer::transact(const fleet::Transaction& transaction) {
  fleet::Reply reply;
  reply.held = std::all_of(transaction.compare.begin(), transaction.compare.end(),
                           [this](const fleet::Compare& one) { return holds(one); });
  const auto& steps = reply.held ? transaction.then : transaction.otherwise;
  for (const fleet::Step& one : steps) {
    const auto* const put = std::get_if<fleet::Put>(&one);
    if (put != nullptr && !knows(put->lease)) return no(Fault::kNoLease, "the store has no such lease");
  }
  bool changed = false;
  for (const fleet::Step& one : steps) changed = step(one, revision_ + 1, reply) || changed;
  if (changed) ++revision_;
  reply.revision = revision_;
  return reply;
}

FakeServer::Result FakeServer::apply(const fleet::Request& request) {
  fleet::Reply reply;
  if (const auto* const one = std::get_if<fleet::Transaction>(&request); one != nullptr)
    return transact(*one);
  if (const auto* const one = std::get_if<fleet::Grant>(&request); one != nullptr) {
    reply.lease = ++last_lease_;
    reply.ttl = one->ttl;
    leases_[reply.lease] = {one->ttl, now_ + one->ttl};
  } else if (const auto* const beat = std::get_if<fleet::KeepAlive>(&request); beat != nullptr) {
    if (const auto at = leases_.find(beat->lease); at != leases_.end()) {
      at->second.until = now_ + at->second.ttl;
      reply.ttl = at->second.ttl;
    }
  } else if (const auto* const end = std::get_if<fleet::Revoke>(&request); end != nullptr) {
    if (!leases_.contains(end->lease)) return no(Fault::kNoLease, "the store has no such lease");
    end_lease(end->lease);
  } else if (const auto* const look = std::get_if<fleet::Read>(&request); look != nullptr) {
    reply.pairs = read(*look, reply.count);
  } else if (const auto* const put_one = std::get_if<fleet::Put>(&request); put_one != nullptr) {
    if (!knows(put_one->lease)) return no(Fault::kNoLease, "the store has no such lease");
    put(*put_one, ++revision_);
  } else if (step(std::get<fleet::Erase>(request), revision_ + 1, reply)) {
    ++revision_;
  }
  reply.revision = revision_;
  return reply;
}

void FakeStore::later(TimeNs at, std::function<void()> happens) {
  events_.push({at, ++numbers_, std::move(happens)});
}

fleet::Ticket FakeStore::ask(fleet::Request request, TimeNs deadline) {
  const fleet::Ticket ticket = ++numbers_;
  if (std::string why = fleet::objection_to(request); !why.empty()) {
    const Fault fault = why.find("bytes") == std::string::npos ? Fault::kInvalid : Fault::kTooLarge;
    open_[ticket] = false;
    answer(ticket, no(fault, std::move(why)));
    return ticket;
  }
  open_[ticket] = false;
  const bool lease = std::holds_alternative<fleet::Grant>(request) ||
                     std::holds_alternative<fleet::KeepAlive>(request) ||
                     std::holds_alternative<fleet::Revoke>(request);
  TimeNs& last = last_request_[lease ? 0 : 1];
  last = std::max(last, now_ + way());
  if (!rng_.chance(faults.lose_request)) {
    later(last, [this, ticket, request = std::move(request)] {
      const auto at = open_.find(ticket);
      // One that was given up may still be done: it was on its way.
      if (faults.unreachable) return;
      if (at != open_.end()) at->second = true;
      FakeServer::Result result = faults.refused
                                      ? FakeServer::Result(no(Fault::kRefused, "permission denied"))
                                      : server_.apply(request);
      if (rng_.chance(faults.lose_answer)) return;
      later(now_ + way(), [this, ticket, result = std::move(result)] {
        if (!faults.unreachable) answer(ticket, result);
      });
    });
  }
  later(std::max(deadline, now_),
        [this, ticket] { answer(ticket, no(Fault::kUnreachable, "no answer came in time", true)); });
  return ticket;
}

void FakeStore::answer(fleet::Ticket ticket, FakeServer::Result result) {
  if (open_.erase(ticket) > 0) news_.emplace_back(fleet::Answer{ticket, std::move(result)});
}

fleet::WatchId FakeStore::watch(std::string prefix, fleet::Revision from) {
  const fleet::WatchId id = ++numbers_;
  watches_[id] = {
      .prefix = std::move(prefix), .from = from, .incarnation = server_.incarnation(), .heard = now_};
  return id;
}

void FakeStore::look(fleet::WatchId id, Watch& watch) {
  if (watch.incarnation != server_.incarnation()) {
    // etcd waits for the revision that was asked for, and says nothing until then.
    watch.incarnation = server_.incarnation();
    watch.next = 0;
  }
  const auto& history = server_.history();
  if (watch.next == history.size()) return;
  if (watch.from < server_.compacted()) {
    news_.emplace_back(
        fleet::WatchOver{id, "the store has forgotten revision " + std::to_string(watch.from)});
    watch.from = std::numeric_limits<fleet::Revision>::max();
  }
  fleet::Changes news{.watch = id};
  for (; watch.next < history.size(); ++watch.next) {
    const fleet::Change& change = history[watch.next];
    if (change.pair.modified < watch.from) continue;
    news.revision = change.pair.modified;
    if (change.pair.key.starts_with(watch.prefix)) news.changes.push_back(change);
  }
  if (news.changes.empty()) return;
  watch.from = news.revision + 1;
  watch.heard = std::max(watch.heard, now_ + way());
  later(watch.heard, [this, id, news = std::move(news)] {
    if (watches_.contains(id)) news_.emplace_back(news);
  });
}

void FakeStore::advance(TimeNs now) {
  while (!events_.empty() && events_.top().at <= now) {
    Event event = events_.top();
    events_.pop();
    now_ = std::max(now_, event.at);
    server_.advance(now_);
    event.happens();
  }
  now_ = std::max(now_, now);
  server_.advance(now_);
  if (faults.unreachable) return;
  for (auto& [id, watch] : watches_) look(id, watch);
  // What is heard without delay is heard now.
  while (!events_.empty() && events_.top().at <= now_) {
    Event event = events_.top();
    events_.pop();
    event.happens();
  }
}

}  // namespace tally
