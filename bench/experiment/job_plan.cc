#include "job_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>

#include "jobs.h"
#include "jobs/layout.h"
#include "layer_list.h"
#include "packets.h"
#include "setting.h"

namespace tally::experiment {
namespace {

// So many tensors of a model, counted from its last, and their share of the time of computing.
struct Group {
  std::uint32_t tensors;
  double share;
};

struct Model {
  std::string_view name;
  std::span<const std::uint32_t> tensors;
  std::span<const Group> groups;
  double intensity;  // time of its communication alone over time of computing, on one link
};

constexpr std::array<Group, 8> kResnetGroups{
    {{2, 1}, {9, 8}, {9, 8}, {12, 8}, {36, 24}, {21, 14}, {39, 20}, {33, 17}}};
constexpr std::array<Group, 9> kVggGroups{
    {{2, 1}, {2, 1}, {2, 3}, {4, 8}, {4, 8}, {4, 14}, {4, 15}, {8, 25}, {8, 25}}};
constexpr std::array<Group, 8> kBertGroups{
    {{2, 1}, {32, 16}, {32, 16}, {32, 16}, {32, 16}, {32, 16}, {32, 16}, {5, 3}}};
constexpr std::array<Group, 3> kNeuMfGroups{{{8, 60}, {2, 20}, {2, 20}}};

enum ModelIndex : std::uint8_t { kResnet, kVgg, kBert, kRecommendation, kModels };
constexpr std::array<Model, kModels> kAll{{{"ResNet-50", bench::kResnet50, kResnetGroups, 0.25},
                                           {"VGG-19", bench::kVgg19, kVggGroups, 1.0},
                                           {"BERT-base", bench::kBertBase, kBertGroups, 0.5},
                                           {"NeuMF", bench::kNeuMf, kNeuMfGroups, 2.0}}};

std::uint32_t chunks_of(std::uint64_t parameters, double scale) {
  const double chunks = static_cast<double>(parameters) * 4 / kModelledBytes / scale;
  return std::max(1U, static_cast<std::uint32_t>(std::lround(chunks)));
}

JobPlan plan_of(const Model& model, double scale) {
  JobPlan plan{.model = model.name};
  double chunks = 0;
  double shares = 0;
  auto last = model.tensors.end();
  for (const Group& group : model.groups) {
    const auto first = last - group.tensors;
    plan.buckets.push_back({.chunks = chunks_of(std::accumulate(first, last, std::uint64_t{0}), scale)});
    last = first;
    chunks += plan.buckets.back().chunks;
    shares += group.share;
  }
  // Backward takes twice as long as forward.
  const double computing = chunks / model.intensity;
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    plan.buckets[i].backward = computing * 2 / 3 * model.groups[i].share / shares;
    plan.buckets[i].forward = computing / 3 * model.groups[i].share / shares;
  }
  return plan;
}

struct Choice {
  ModelIndex model;
  std::uint32_t iterations;
};

Choice choose(const Setting& s, const Chance& chance, std::uint32_t job) {
  const auto turn = job + static_cast<std::uint32_t>(chance.word(Purpose::kMix) % 64);
  const std::uint32_t n = s.iterations;
  switch (s.mix) {
    case Mix::kShortAndLong:
      if (turn % 2 == 1) return {turn / 2 % 2 == 1 ? kResnet : kRecommendation, std::max(2U, n / 2)};
      return {turn / 2 % 2 == 1 ? kVgg : kBert, 2 * n};
    case Mix::kAll:
      return {static_cast<ModelIndex>(turn % kModels), n};
    case Mix::kHeavyTail: {
      const double tail = 0.35 * std::pow(1 - chance.unit(Purpose::kMix, 1, job), -0.8);
      return {static_cast<ModelIndex>(chance.word(Purpose::kMix, 2, job) % kModels),
              std::clamp(static_cast<std::uint32_t>(n * tail), 2U, 6 * n)};
    }
    case Mix::kOneUrgent:
      return job == 0 ? Choice{kResnet, 2 * n} : Choice{kVgg, n};
  }
  return {};
}

}  // namespace

std::vector<JobPlan> plans_of(const Setting& s, const Chance& chance) {
  std::vector<JobPlan> plans;
  for (std::uint32_t job = 0; job < s.jobs; ++job) {
    const Choice choice = choose(s, chance, job);
    JobPlan plan = plan_of(kAll.at(choice.model), s.scale);
    plan.iterations = choice.iterations;
    plan.arrival = s.arrivals * chance.unit(Purpose::kArrival, job);
    plan.urgent = s.mix == Mix::kOneUrgent && job == 0;
    plans.push_back(std::move(plan));
  }
  return plans;
}

namespace {

constexpr std::uint32_t kLeastWindow = 16;  // control offers no smaller one
constexpr std::uint16_t kFirstServerAddress = 200;

// Two versions of a window for each job, or nothing.
std::uint32_t pool_window(const Setting& s) {
  const std::uint32_t most = slots_of(s) / s.jobs / 2;
  return most == 0 ? 0 : std::min(std::bit_floor(most), s.window);
}

JobSpec spec_of(const Setting& s, std::uint16_t job) {
  JobSpec spec;
  spec.id = static_cast<std::uint16_t>(job + 1);
  spec.epoch = 0x1000'0001U + job;
  spec.generation = mix64(s.seed * 1024 + job) | 1;
  spec.world = static_cast<std::uint8_t>(s.world);
  spec.window = s.window;
  spec.elements = kElements;
  spec.discipline = s.row.discipline;
  spec.decay = s.row.decay;
  spec.shared_slots = std::max(slots_of(s), 1U);
  spec.salt = mix64(s.seed * 4096 + job);
  return spec;
}

void add_server(jobs::Job& row, std::uint16_t job) {
  row.server = ServerKind::kExternal;
  row.servers = 1;
  row.server_ranks[0] = {Cookie{mix64(raw(row.epoch) * 193ULL)}, 0, test_binding(kFirstServerAddress, job)};
  row.server_ranks[0].binding.port = PortIndex{0};
}

}  // namespace

std::uint32_t slots_of(const Setting& s) {
  return static_cast<std::uint32_t>(std::lround(s.slots_share * s.jobs * s.window));
}

bool gets_no_pool(const Setting& s) {
  return s.row.discipline == Discipline::kPool && pool_window(s) < kLeastWindow;
}

std::vector<jobs::Job> rows_of(const Setting& s, const std::vector<JobPlan>& plans) {
  std::vector<jobs::Job> rows;
  std::uint32_t line = 0;
  for (std::uint16_t job = 0; job < s.jobs; ++job) {
    JobSpec spec = spec_of(s, job);
    if (s.mix == Mix::kOneUrgent) spec.max_priority = plans[job].urgent ? 254 : 63;
    if (spec.discipline == Discipline::kPool) {
      if (gets_no_pool(s)) broken("no pool fits; the caller asks gets_no_pool() first");
      spec.window = pool_window(s);
      spec.shared_slots = 0;
    }
    spec.first_line = line;
    jobs::Job row = make_job(spec);
    line += row.slots.count;
    for (jobs::Member& member : row.ranks) member.binding.port = PortIndex{0};
    if (row.discipline == Discipline::kPool) {
      row.server = ServerKind::kNone;
    } else if (!s.embedded) {
      add_server(row, job);
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace tally::experiment
