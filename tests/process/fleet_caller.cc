// etcd's client and a member of a fleet, for tests/process; which etcd the second argument says, in JSON.
//
//   calls SETTINGS           requests from stdin, a line of JSON each; answers and news to stdout, likewise
//   member SETTINGS PREFIX ID   a member that says how things are whenever they change; orders from stdin
//   compare SETTINGS SEED N  the same N random requests to this etcd, which is new, and to the store in memory that the
//                            unit tests use; says where they differ

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "etcd/etcd_store.h"
#include "fake_store.h"
#include "fleet/member.h"
#include "rng.h"

namespace tally {
namespace {

using fleet::Json;

etcd::Settings settings_of(const std::string& text) {
  const Json json = Json::parse(text);
  return {.endpoints = json.at("endpoints").get<std::vector<std::string>>(),
          .user = json.value("user", ""),
          .password_file = json.value("password_file", ""),
          .ca = json.value("ca", ""),
          .certificate = json.value("certificate", ""),
          .key = json.value("key", "")};
}

const char* name_of(fleet::Fault fault) {
  switch (fault) {
    case fleet::Fault::kUnreachable:
      return "unreachable";
    case fleet::Fault::kRefused:
      return "refused";
    case fleet::Fault::kTooLarge:
      return "too large";
    case fleet::Fault::kCompacted:
      return "compacted";
    case fleet::Fault::kNoLease:
      return "no lease";
    case fleet::Fault::kInvalid:
      return "invalid";
  }
  return "";
}

// A value that is long is shown by its length.
Json json_of(const fleet::Pair& pair) {
  Json json{{"key", pair.key}, {"created", pair.created}, {"modified", pair.modified}, {"lease", pair.lease}};
  if (pair.value.size() > 4096)
    json["bytes"] = pair.value.size();
  else
    json["value"] = pair.value;
  return json;
}

Json json_of(const std::vector<fleet::Pair>& pairs) {
  Json all = Json::array();
  for (const fleet::Pair& pair : pairs) all.push_back(json_of(pair));
  return all;
}

Json json_of(const std::vector<fleet::Change>& changes) {
  Json all = Json::array();
  for (const fleet::Change& change : changes) {
    Json one = json_of(change.pair);
    if (change.erased)
      one = Json{{"key", change.pair.key}, {"modified", change.pair.modified}, {"erased", true}};
    all.push_back(std::move(one));
  }
  return all;
}

Json json_of(const fleet::StoreResult& result) {
  if (!result)
    return {{"fault", name_of(result.error().fault)},
            {"text", result.error().text},
            {"perhaps", result.error().perhaps}};
  Json reads = Json::array();
  for (const auto& read : result->reads) reads.push_back(json_of(read));
  return {{"revision", result->revision}, {"pairs", json_of(result->pairs)}, {"count", result->count},
          {"held", result->held},         {"reads", std::move(reads)},       {"lease", result->lease},
          {"ttl", result->ttl / kSecond}};
}

fleet::KeyRange range_of(const Json& json) {
  return {json.at("key").get<std::string>(), json.value("prefix", false)};
}

fleet::Put put_of(const Json& json) {
  return {
      json.at("key").get<std::string>(),
      json.contains("bytes") ? std::string(json["bytes"].get<std::size_t>(), 'x') : json.value("value", ""),
      json.value("lease", fleet::LeaseId{0})};
}

std::vector<fleet::Step> steps_of(const Json& all) {
  std::vector<fleet::Step> steps;
  for (const Json& json : all) {
    const auto op = json.at("op").get<std::string>();
    if (op == "read") steps.emplace_back(fleet::Read{range_of(json), json.value("newest", false)});
    if (op == "put") steps.emplace_back(put_of(json));
    if (op == "erase") steps.emplace_back(fleet::Erase{range_of(json)});
    if (op == "erase up to")
      steps.emplace_back(
          fleet::EraseUpTo{json.at("key").get<std::string>(), json.at("end").get<std::string>()});
  }
  return steps;
}

fleet::Request request_of(const Json& json) {
  const auto op = json.at("op").get<std::string>();
  if (op == "read") return fleet::Read{range_of(json), json.value("newest", false)};
  if (op == "put") return put_of(json);
  if (op == "erase") return fleet::Erase{range_of(json)};
  if (op == "grant") return fleet::Grant{json.at("ttl").get<TimeNs>() * kSecond};
  if (op == "keep") return fleet::KeepAlive{json.at("lease").get<fleet::LeaseId>()};
  if (op == "revoke") return fleet::Revoke{json.at("lease").get<fleet::LeaseId>()};
  fleet::Transaction transaction{.then = steps_of(json.value("then", Json::array())),
                                 .otherwise = steps_of(json.value("otherwise", Json::array()))};
  for (const Json& one : json.value("compare", Json::array())) {
    fleet::Compare compare{.key = one.at("key").get<std::string>()};
    compare.of = one.contains("value")      ? fleet::Compare::Of::kValue
                 : one.contains("modified") ? fleet::Compare::Of::kModified
                                            : fleet::Compare::Of::kCreated;
    compare.revision = one.value("modified", one.value("created", fleet::Revision{0}));
    compare.value = one.value("value", "");
    transaction.compare.push_back(std::move(compare));
  }
  return transaction;
}

void say(const Json& json) {
  std::cout << json.dump(-1, ' ', false, Json::error_handler_t::replace)
            << std::endl;  // NOLINT(performance-avoid-endl)
}

// Lines of stdin, without waiting for them longer than a moment.
class Input {
 public:
  // False: there is no more.
  bool wait(int milliseconds, std::vector<std::string>& lines) {
    pollfd in{STDIN_FILENO, POLLIN, 0};
    if (::poll(&in, 1, milliseconds) <= 0) return true;
    char bytes[65536];  // NOLINT(modernize-avoid-c-arrays)
    const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (n <= 0) return false;
    text_.append(bytes, static_cast<std::size_t>(n));
    for (std::size_t end = 0; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1))
      lines.push_back(text_.substr(0, end));
    return true;
  }

 private:
  std::string text_{};
};

void tell(const fleet::News& news, std::map<fleet::Ticket, std::pair<Json, TimeNs>>& open) {
  if (const auto* const answer = std::get_if<fleet::Answer>(&news); answer != nullptr) {
    Json json = json_of(answer->reply);
    json["id"] = open[answer->ticket].first;
    json["took"] = static_cast<double>(steady_now() - open[answer->ticket].second) / 1e9;
    say(json);
  } else if (const auto* const changes = std::get_if<fleet::Changes>(&news); changes != nullptr) {
    say({{"watch", changes->watch}, {"revision", changes->revision}, {"changes", json_of(changes->changes)}});
  } else {
    const auto& over = std::get<fleet::WatchOver>(news);
    say({{"over", over.watch}, {"text", over.text}});
  }
}

int run_calls(etcd::EtcdStore& store) {
  Input input;
  std::map<fleet::Ticket, std::pair<Json, TimeNs>> open;
  std::vector<std::string> lines;
  while (input.wait(5, lines)) {
    for (const std::string& line : lines) {
      const Json json = Json::parse(line);
      const auto op = json.at("op").get<std::string>();
      if (op == "watch") {
        const fleet::WatchId id =
            store.watch(json.at("prefix").get<std::string>(), json.at("from").get<fleet::Revision>());
        say({{"id", json.at("id")}, {"watching", id}});
      } else if (op == "unwatch") {
        store.unwatch(json.at("watch").get<fleet::WatchId>());
        say({{"id", json.at("id")}, {"unwatched", true}});
      } else {
        const fleet::Ticket ticket =
            store.ask(request_of(json), steady_now() + json.value("ms", TimeNs{30000}) * kMillisecond);
        open[ticket] = {json.at("id"), steady_now()};
      }
    }
    lines.clear();
    for (const fleet::News& news : store.take()) tell(news, open);
  }
  return 0;
}

fleet::PlanRecord plan_of(const std::string& job, std::uint32_t number) {
  fleet::PlanRecord record{.job = job, .facts = 1, .number = number};
  record.plan.boxes = {mapped({10, 0, 0, 1})};
  record.plan.tables.resize(1);
  record.plan.table_of = {0, 0};
  return record;
}

Json state_of(const fleet::Member& member, TimeNs now) {
  Json boxes = Json::object();
  for (const auto& [id, box] : member.view().boxes()) boxes[id] = box.record.free_slots;
  Json jobs = Json::object();
  for (const auto& [name, job] : member.view().jobs()) {
    const auto plan = job.newest_plan();
    jobs[name] = Json{{"home", job.home ? job.home->record.box : ""},
                      {"epoch", plan ? plan->number : 0},
                      {"mine", member.is_home_of(name, now)}};
  }
  return {{"standing", fleet::name_of(member.standing().kind)},
          {"text", member.standing().text},
          {"boxes", boxes},
          {"jobs", jobs},
          {"planner", member.view().planner() ? member.view().planner()->record.box : ""},
          {"fence", member.planner_since(now)},
          {"lost", member.leases_lost()},
          {"reads", member.reads()},
          {"bad", member.view().bad().size()}};
}

int run_member(etcd::EtcdStore& store, const std::string& prefix, const std::string& id) {
  fleet::BoxRecord self{.name = id,
                        .life = static_cast<std::uint64_t>(::getpid()),
                        .since = unix_now() / kSecond,
                        .addresses = {"10.0.0.1"}};
  fleet::Member member({.prefix = prefix, .id = id, .lease = 5 * kSecond}, store, self, steady_now());
  Input input;
  std::vector<std::string> lines;
  Json last;
  bool more = true;
  while (more && !member.left()) {
    more = input.wait(20, lines);
    const TimeNs now = steady_now();
    for (const std::string& line : lines) {
      std::istringstream words(line);
      std::string order;
      std::string job;
      std::uint32_t n = 0;
      words >> order;
      Result<void> done{};
      if (order == "free" && words >> n) {
        self.free_slots = n;
        member.set_self(self);
      } else if (order == "declare" && words >> job) {
        done = member.declare({.name = job, .spec = Json{{"workers", 2}}}, now);
      } else if (order == "withdraw" && words >> job) {
        done = member.withdraw(job, now);
      } else if (order == "plan" && words >> job >> n) {
        done = member.publish(plan_of(job, n), now);
      } else if (order == "leave") {
        member.leave(now);
      }
      if (!done) say({{"refused", done.error().what}});
    }
    lines.clear();
    // Whatever somebody has declared it would be the home of.
    std::map<std::string, fleet::OwnJob> jobs;
    for (const auto& [name, seen] : member.view().jobs())
      if (seen.record) jobs[name] = {.record = *seen.record, .addresses = self.addresses};
    member.set_jobs(std::move(jobs));
    member.tick(now);
    for (const fleet::Note& note : member.take_notes()) say({{"note", note.text}, {"bad", note.bad}});
    for (const fleet::Outcome& outcome : member.take_outcomes())
      say({{"outcome", outcome.job},
           {"epoch", outcome.number},
           {"verdict", static_cast<int>(outcome.verdict)},
           {"text", outcome.text}});
    Json state = state_of(member, now);
    if (state != last) say({{"state", state}});
    last = std::move(state);
  }
  return 0;
}

// One life of two stores.
class Comparison {
 public:
  Comparison(etcd::EtcdStore& store, std::uint64_t seed) : store_(store), rng_(seed) {}

  // Exit code.
  int run(std::uint64_t requests) {
    const fleet::WatchId watch = store_.watch("/t/", 1);
    for (std::uint64_t i = 0; i < requests; ++i) {
      const fleet::Request theirs = draw();
      const fleet::Request ours = with_our_leases(theirs);
      const fleet::StoreResult real = ask(theirs);
      const fleet::StoreResult fake = server_.apply(ours);
      if (real && real->lease != 0) lease_of_[real->lease] = fake ? fake->lease : 0;
      Json a = json_of(with_our_leases(real));
      Json b = json_of(fake);
      for (Json* const one : {&a, &b}) one->erase("text");
      if (a != b) {
        say({{"request", static_cast<std::uint64_t>(theirs.index())},
             {"number", i},
             {"etcd", a},
             {"memory", b}});
        return 1;
      }
    }
    std::vector<fleet::Change> expected;
    for (const fleet::Change& change : server_.history())
      if (change.pair.key.starts_with("/t/")) expected.push_back(change);
    const TimeNs end = steady_now() + 30 * kSecond;
    while (changes_.size() < expected.size() && steady_now() < end) take();
    for (fleet::Change& change : changes_) change.pair.lease = our_lease(change.pair.lease);
    if (json_of(changes_) != json_of(expected)) {
      say({{"heard", json_of(changes_)}, {"expected", json_of(expected)}});
      return 1;
    }
    say({{"requests", requests},
         {"changes", changes_.size()},
         {"revision", server_.revision()},
         {"watch", watch}});
    return 0;
  }

 private:
  std::string key(char first, char last) {
    return std::string("/t/") + static_cast<char>(rng_.between(static_cast<std::uint64_t>(first),
                                                               static_cast<std::uint64_t>(last)));
  }
  fleet::LeaseId lease() {
    if (lease_of_.empty() || rng_.chance(0.5)) return rng_.chance(0.1) ? 12'345 : 0;
    auto at = lease_of_.begin();
    std::advance(at, rng_.below(lease_of_.size()));
    return at->first;
  }
  fleet::KeyRange range(char first, char last) {
    if (rng_.chance(0.2)) return {first == 'a' ? "/t/" : key(first, last), true};
    return {key(first, last), false};
  }
  // Of a transaction of etcd no two steps change the same key.
  std::vector<fleet::Step> steps() {
    std::vector<fleet::Step> all;
    if (rng_.chance(0.5)) all.emplace_back(fleet::Read{range('a', 'h'), rng_.chance(0.3)});
    if (rng_.chance(0.7)) all.emplace_back(fleet::Put{key('a', 'b'), value(), lease()});
    if (rng_.chance(0.3)) all.emplace_back(fleet::Put{key('c', 'd'), value(), lease()});
    if (rng_.chance(0.3)) all.emplace_back(fleet::Erase{range('e', 'f')});
    if (rng_.chance(0.3)) all.emplace_back(fleet::EraseUpTo{"/t/g", "/t/h"});
    if (rng_.chance(0.5)) all.emplace_back(fleet::Read{range('a', 'h'), false});
    return all;
  }
  std::string value() {
    std::string bytes(rng_.below(6), '\0');
    for (char& byte : bytes) byte = static_cast<char>(rng_.next());
    return bytes;
  }
  fleet::Request draw() {
    switch (rng_.below(10)) {
      case 0:
        return fleet::Read{range('a', 'h'), rng_.chance(0.5)};
      case 1:
      case 2:
        return fleet::Put{rng_.chance(0.2) ? "/elsewhere" : key('a', 'h'), value(), lease()};
      case 3:
        return fleet::Erase{range('a', 'h')};
      case 4:
        return fleet::Grant{600 * kSecond};
      case 5:
        return fleet::KeepAlive{lease()};
      case 6:
        return fleet::Revoke{rng_.chance(0.7) ? 12'345 : lease()};
      default: {
        fleet::Transaction transaction;
        for (std::uint64_t n = rng_.below(3); n > 0; --n) {
          fleet::Compare compare{.key = key('a', 'h'), .of = static_cast<fleet::Compare::Of>(rng_.below(3))};
          const auto at = server_.pairs().find(compare.key);
          const bool true_one = at != server_.pairs().end() && rng_.chance(0.7);
          compare.revision = !true_one                                    ? 0
                             : compare.of == fleet::Compare::Of::kCreated ? at->second.created
                                                                          : at->second.modified;
          compare.value = true_one ? at->second.value : "other";
          transaction.compare.push_back(std::move(compare));
        }
        transaction.then = steps();
        transaction.otherwise = steps();
        return transaction;
      }
    }
  }

  // The stores give their leases numbers of their own.
  [[nodiscard]] fleet::LeaseId our_lease(fleet::LeaseId theirs) const {
    const auto at = lease_of_.find(theirs);
    return at == lease_of_.end() ? theirs : at->second;
  }
  [[nodiscard]] fleet::Request with_our_leases(fleet::Request request) const {
    if (auto* const put = std::get_if<fleet::Put>(&request); put != nullptr)
      put->lease = our_lease(put->lease);
    if (auto* const beat = std::get_if<fleet::KeepAlive>(&request); beat != nullptr)
      beat->lease = our_lease(beat->lease);
    if (auto* const end = std::get_if<fleet::Revoke>(&request); end != nullptr)
      end->lease = our_lease(end->lease);
    if (auto* const all = std::get_if<fleet::Transaction>(&request); all != nullptr) {
      for (auto* const side : {&all->then, &all->otherwise})
        for (fleet::Step& step : *side)
          if (auto* const put = std::get_if<fleet::Put>(&step); put != nullptr)
            put->lease = our_lease(put->lease);
    }
    return request;
  }
  [[nodiscard]] fleet::StoreResult with_our_leases(fleet::StoreResult result) const {
    if (!result) return result;
    result->lease = our_lease(result->lease);
    for (fleet::Pair& pair : result->pairs) pair.lease = our_lease(pair.lease);
    for (auto& read : result->reads)
      for (fleet::Pair& pair : read) pair.lease = our_lease(pair.lease);
    return result;
  }

  std::vector<fleet::Answer> take() {
    std::vector<fleet::Answer> answers;
    pollfd none{-1, 0, 0};
    (void)::poll(&none, 1, 1);
    for (const fleet::News& news : store_.take()) {
      if (const auto* const answer = std::get_if<fleet::Answer>(&news); answer != nullptr)
        answers.push_back(*answer);
      if (const auto* const changes = std::get_if<fleet::Changes>(&news); changes != nullptr)
        changes_.insert(changes_.end(), changes->changes.begin(), changes->changes.end());
    }
    return answers;
  }
  fleet::StoreResult ask(const fleet::Request& request) {
    const fleet::Ticket ticket = store_.ask(request, steady_now() + 30 * kSecond);
    for (;;)
      for (const fleet::Answer& answer : take())
        if (answer.ticket == ticket) return answer.reply;
  }

  etcd::EtcdStore& store_;
  FakeServer server_{};
  Rng rng_;
  std::map<fleet::LeaseId, fleet::LeaseId> lease_of_{};  // etcd's: ours
  std::vector<fleet::Change> changes_{};
};

int run(const std::vector<std::string>& words) {
  if (words.size() < 3) return 2;
  auto store = etcd::EtcdStore::start(settings_of(words[2]));
  if (!store) {
    std::cerr << store.error().text() << "\n";
    return 1;
  }
  if (words[1] == "calls") return run_calls(**store);
  if (words[1] == "member" && words.size() == 5) return run_member(**store, words[3], words[4]);
  if (words[1] == "compare" && words.size() == 5)
    return Comparison(**store, std::stoull(words[3])).run(std::stoull(words[4]));
  return 2;
}

}  // namespace
}  // namespace tally

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  return tally::run({argv, argv + argc});
}
