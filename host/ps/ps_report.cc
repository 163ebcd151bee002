#include "ps/ps_report.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/text.h"

namespace tally::ps {
namespace {

using nlohmann::json;

struct Named {
  const char* name;
  std::uint64_t PsJobStatistics::*counter;
};
constexpr std::array<Named, 34> kCounters{{{"joins", &PsJobStatistics::joins},
                                           {"refusals", &PsJobStatistics::refusals},
                                           {"epochs", &PsJobStatistics::epochs},
                                           {"generations", &PsJobStatistics::generations},
                                           {"rejects", &PsJobStatistics::rejects},
                                           {"aborts", &PsJobStatistics::aborts},
                                           {"silences", &PsJobStatistics::silences},
                                           {"heartbeats", &PsJobStatistics::heartbeats},
                                           {"heartbeat_echoes", &PsJobStatistics::heartbeat_echoes},
                                           {"enlists", &PsJobStatistics::enlists},
                                           {"enlisted", &PsJobStatistics::enlisted},
                                           {"boxes_lost", &PsJobStatistics::boxes_lost},
                                           {"losts", &PsJobStatistics::losts},
                                           {"contributions", &PsJobStatistics::contributions},
                                           {"partials", &PsJobStatistics::partials},
                                           {"sums", &PsJobStatistics::sums},
                                           {"queries", &PsJobStatistics::queries},
                                           {"merged", &PsJobStatistics::merged},
                                           {"completed", &PsJobStatistics::completed},
                                           {"known", &PsJobStatistics::known},
                                           {"inside", &PsJobStatistics::inside},
                                           {"overlaps", &PsJobStatistics::overlaps},
                                           {"mismatches", &PsJobStatistics::mismatches},
                                           {"bad_sums", &PsJobStatistics::bad_sums},
                                           {"no_room", &PsJobStatistics::no_room},
                                           {"fruitless", &PsJobStatistics::fruitless},
                                           {"outdated", &PsJobStatistics::outdated},
                                           {"results", &PsJobStatistics::results},
                                           {"flushes", &PsJobStatistics::flushes},
                                           {"resends", &PsJobStatistics::resends},
                                           {"queue_full", &PsJobStatistics::queue_full},
                                           {"overtaken", &PsJobStatistics::overtaken},
                                           {"unreached", &PsJobStatistics::unreached},
                                           {"flush_time_ns", &PsJobStatistics::flush_time}}};

// flush_time is no count.
PsJobStatistics sum_of(const PsEngine& engine) {
  PsJobStatistics sum;
  for (std::size_t job = 0; job < engine.jobs(); ++job) {
    for (const Named& each : kCounters) {
      if (each.counter != &PsJobStatistics::flush_time)
        sum.*each.counter += engine.statistics(job).*each.counter;
    }
  }
  return sum;
}

std::uint64_t refused_total(const PsEngine& engine) {
  std::uint64_t n = 0;
  for (const auto v : engine.refused()) n += v;
  return n;
}

std::size_t running(const PsEngine& engine) {
  std::size_t n = 0;
  for (std::size_t job = 0; job < engine.jobs(); ++job) n += engine.member(job).joining() ? 0 : 1;
  return n;
}

}  // namespace

std::string event_line(const PsEngine& engine, const PsEvent& event) {
  return "job '" + engine.member(event.job).name() + "': " + event.text;
}

std::string statistics_line(const PsEngine& engine) {
  const PsJobStatistics s = sum_of(engine);
  const server::MergeCounters& memory = engine.memory();
  return std::to_string(running(engine)) + " of " + std::to_string(engine.jobs()) + " jobs run; in " +
         text::with_commas(s.taken()) + " (contributions " + text::with_commas(s.contributions) +
         ", partials " + text::with_commas(s.partials) + ", sums " + text::with_commas(s.sums) +
         "), refused " + text::with_commas(refused_total(engine)) + "; chunks completed " +
         text::with_commas(s.completed) + ", no room " + text::with_commas(s.no_room) + ", given up " +
         text::with_commas(s.fruitless + s.outdated) + "; out " +
         text::with_commas(s.results + s.flushes + s.resends) + " (results " + text::with_commas(s.results) +
         ", flushes " + text::with_commas(s.flushes) + ", resends " + text::with_commas(s.resends) +
         "), queue full " + text::with_commas(s.queue_full) + "; states " +
         text::with_commas(memory.incomplete) + " incomplete, " + text::with_commas(memory.complete) +
         " kept, of " + text::with_commas(engine.capacity());
}

std::string statistics_json(const PsEngine& engine) {
  json jobs = json::array();
  for (std::size_t job = 0; job < engine.jobs(); ++job) {
    const ServerMember& member = engine.member(job);
    json one{{"job", member.name()}, {"server", server_index(member.rank())}, {"running", !member.joining()}};
    for (const Named& each : kCounters) {
      one[each.name] = engine.statistics(job).*each.counter;
    }
    jobs.push_back(std::move(one));
  }
  json refused = json::object();
  for (std::size_t i = 0; i < kRefusedCount; ++i)
    refused[std::string(kRefusedNames[i])] = engine.refused()[i];
  const server::MergeCounters& memory = engine.memory();
  const json all{{"jobs", std::move(jobs)},
                 {"refused", std::move(refused)},
                 {"states",
                  {{"capacity", engine.capacity()},
                   {"incomplete", memory.incomplete.get()},
                   {"complete", memory.complete.get()},
                   {"forgotten", memory.forgotten.get()}}}};
  return all.dump();
}

}  // namespace tally::ps
