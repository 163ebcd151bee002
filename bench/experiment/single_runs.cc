#include "single_runs.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "sweep.h"

namespace tally::experiment {
namespace {

constexpr std::array<std::string_view, 4> kMixes{"mixed", "all", "heavy", "urgent"};  // in the order of Mix

template <class T>
std::vector<T> or_default(const std::vector<T>& given, T otherwise) {
  return given.empty() ? std::vector<T>{otherwise} : given;
}

// The index of `name` in a range of names that has it.
template <class Names>
std::size_t index_of(const Names& names, const std::string& name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

void add_rows(std::vector<Setting>& settings, const SingleRuns& wanted, Setting s) {
  const auto names = names_of_rows();
  const std::string shared(row_at(kSharedRow).name);
  for (const std::string& row : or_default(wanted.rows, shared))
    settings.push_back(of_row(s, row_at(static_cast<RowIndex>(index_of(names, row)))));
}

}  // namespace

std::vector<std::string> names_of_rows() {
  std::vector<std::string> names;
  for (const Row& row : all_rows()) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> names_of_mixes() { return {kMixes.begin(), kMixes.end()}; }

std::vector<std::string> names_of_servers() {
  std::vector<std::string> names;
  for (const ServerState& server : all_servers()) names.emplace_back(server.name);
  return names;
}

std::vector<Setting> settings_of(const SingleRuns& wanted) {
  std::vector<Setting> settings;
  for (const std::uint64_t number : wanted.regimes) add_rows(settings, wanted, regime_of({}, number));
  if (!wanted.regimes.empty()) return settings;
  Setting s;
  if (!wanted.mix.empty()) s.mix = static_cast<Mix>(index_of(kMixes, wanted.mix));
  if (s.mix == Mix::kOneUrgent) s.jobs = 9;
  if (!wanted.r.empty()) {
    const ServerState& server = all_servers()[index_of(names_of_servers(), wanted.r)];
    s.server_rate = server.rate;
    s.jobs_of_server = server.jobs_of_server;
  }
  for (const double slots : or_default(wanted.slots, 10.0)) {
    for (const double loss : or_default(wanted.losses, 0.0)) {
      for (const std::uint64_t seed : or_default(wanted.seeds, s.seed)) {
        Setting one = s;
        one.slots_share = slots / 100;
        one.loss = loss / 100;
        one.seed = seed;
        add_rows(settings, wanted, one);
      }
    }
  }
  return settings;
}

std::string csv_of(const std::vector<Setting>& settings, const std::vector<Outcomes>& outcomes) {
  std::string out =
      "row,seed,mix,slots_percent,loss_percent,r,mean_jct_u,first_job_u,aggregation,in_use,useful,"
      "contributions,"
      "sent_again,early,queries,to_servers,flushes,resends,swept,lost,wrong\n";
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const Setting& s = settings[i];
    const Outcomes& o = outcomes[i];
    std::array<char, 512> line{};
    std::snprintf(line.data(), line.size(),
                  "\"%s\",%lu,%s,%g,%g,%g,%.0f,%.0f,%.4f,%.4f,%.4f,%lu,%lu,%lu,%lu,%lu,%lu,%lu,%lu,%lu,%lu\n",
                  std::string(s.row.name).c_str(), s.seed,
                  std::string(kMixes.at(static_cast<std::size_t>(s.mix))).c_str(), 100 * s.slots_share,
                  100 * s.loss, state_of(s), o.mean_time(), o.jobs.front().time, o.aggregation(),
                  o.utilisation, o.useful, o.contributions, o.retransmissions, o.early, o.queries,
                  o.to_servers, o.flushes, o.resends, o.swept, o.lost, o.wrong);
    out += line.data();
  }
  return out;
}

int run_single(const SingleRuns& wanted, unsigned threads) {
  const auto settings = settings_of(wanted);
  const auto outcomes = run_all(settings, threads);
  std::fputs(csv_of(settings, outcomes).c_str(), stdout);
  return std::all_of(outcomes.begin(), outcomes.end(), [](const Outcomes& o) { return o.wrong == 0; }) ? 0
                                                                                                       : 1;
}

}  // namespace tally::experiment
