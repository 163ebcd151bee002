#include "api/debug_log.h"

#include <unistd.h>
#include <array>
#include <cinttypes>
#include <cstdio>

#include "engine/worker_join.h"

namespace tally {
namespace {

template <class Number>
std::string hexadecimal(Number number) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%0*" PRIx64, static_cast<int>(2 * sizeof number),
                static_cast<std::uint64_t>(number));
  return text.data();
}

std::string counted(std::string_view name, std::uint64_t n) {
  return ", " + std::string(name) + " " + std::to_string(n);
}

// What a person looks for when something is slow or wrong; empty if nothing happened.
std::string differences(const EngineStatistics& now, const EngineStatistics& then) {
  std::string text;
  const auto add = [&](std::string_view name, std::uint64_t a, std::uint64_t b) {
    if (a != b) text += counted(name, a - b);
  };
  add("retransmissions", now.retransmissions, then.retransmissions);
  add("early ones", now.early, then.early);
  add("nacks", now.nacks, then.nacks);
  add("queries", now.queries, then.queries);
  add("answers", now.answers, then.answers);
  add("overflows", now.overflows, then.overflows);
  add("incomplete", now.incomplete, then.incomplete);
  add("waiting", now.waiting, then.waiting);
  add("rejects", now.rejects, then.rejects);
  add("joins", now.joins, then.joins);
  for (std::size_t i = 0; i < kRefusedCount; ++i)
    add("refused " + std::string(kRefusedNames.at(i)), now.refused.at(i), then.refused.at(i));
  return text;
}

}  // namespace

DebugLog::DebugLog(const WorkerOptions& options)
    : info_(!options.debug.empty()),
      trace_(options.debug == "TRACE"),
      prefix_("tally: " + options.job + " rank " + std::to_string(options.rank) + "/" +
              std::to_string(options.world) + ": "),
      path_("box " + options.box + " over " + options.transport) {}

// One write of one line: lines of many processes on one terminal stay whole.
void DebugLog::line(std::string_view text) const {
  const std::string whole = prefix_ + std::string(text) + "\n";
  if (write(STDERR_FILENO, whole.data(), whole.size()) < 0) return;  // nowhere left to complain
}

void DebugLog::lowered(std::uint16_t wished, std::uint16_t carried) const {
  if (info_)
    line("elements lowered from " + std::to_string(wished) + " to " + std::to_string(carried) +
         ": the path carries no more");
}

void DebugLog::attached(const Transport& transport) const {
  if (info_) line("joining, " + path_ + " (" + transport.describe() + ")");
}

void DebugLog::joined(const engine::Membership& m, const EngineStatistics& statistics,
                      const Transport& transport) {
  const bool anew = generation_ != raw(m.generation);
  generation_ = raw(m.generation);
  if (!(anew ? info_ : trace_)) return;
  line((anew ? "joined, " + path_ + " (" + transport.describe() + ")" : std::string("new epoch")) +
       ", elements " + std::to_string(m.elements) + ", window " + std::to_string(m.window) + ", shards " +
       std::to_string(m.shards) + ", " + (m.results == ResultsMode::kMulticast ? "multicast" : "unicast") +
       (m.has_racks() ? ", rack " + std::to_string(m.place.rack) + " of " + std::to_string(m.place.racks)
                      : "") +
       ", epoch " + hexadecimal(raw(m.epoch)) + ", generation " + hexadecimal(raw(m.generation)) +
       ", after " + std::to_string(statistics.joins) + " JOINs");
}

void DebugLog::changed(const EngineStatistics& statistics) {
  if (!trace_) return;
  if (const std::string text = differences(statistics, last_); !text.empty()) line("since then" + text);
  last_ = statistics;
}

void DebugLog::waiting(std::uint64_t ranks, std::uint32_t first_rank) {
  if (info_ && ranks != 0 && ranks != waiting_for_)
    line("waiting for " + engine::name_ranks(ranks, first_rank));
  waiting_for_ = ranks;
}

void DebugLog::troubled(const std::string& trouble, TimeNs now) {
  if (!info_) return;
  if (news_.is_news(trouble, now)) line("path: " + trouble);
  trouble_ = trouble;
}

void DebugLog::closed(const Error& error) const {
  if (info_) line("closed: " + error.text());
}

void DebugLog::summary(const EngineStatistics& s, std::uint64_t datagrams) const {
  if (!info_) return;
  line("end" + counted("contributions", s.contributions) + counted("results", s.results) +
       counted("retransmissions", s.retransmissions) + counted("early", s.early) +
       counted("queries", s.queries) + counted("answers", s.answers) + counted("overflows", s.overflows) +
       counted("epochs", s.epochs) + counted("rejects", s.rejects) + counted("received", datagrams) +
       counted("refused", s.refused_total()) + counted("srtt_us", s.srtt / kMicrosecond) +
       (trouble_.empty() ? "" : "; path: " + trouble_));
}

}  // namespace tally
