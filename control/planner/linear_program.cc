#include "planner/linear_program.h"

#include <ClpEventHandler.hpp>
#include <ClpSimplex.hpp>
#include <CoinError.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <unordered_map>

#include "tally/mix64.h"

namespace tally::planner {
namespace {

thread_local const std::atomic<bool>* stop_when = nullptr;

// Clp asks it after each iteration.
class StopHandler final : public ClpEventHandler {
 public:
  int event(Event /*what*/) override { return is_stopped() ? 0 : -1; }
  [[nodiscard]] ClpEventHandler* clone() const override { return new StopHandler(*this); }
};

void let_stop(ClpSimplex& clp) {
  const StopHandler handler;
  clp.passInEventHandler(&handler);  // a copy
}

tl::unexpected<Error> stopped() {
  return fail(ErrorCode::kInvalidArgument, "nobody waits for the linear program any more");
}

}  // namespace

StopWhen::StopWhen(const std::atomic<bool>& over) noexcept { stop_when = &over; }
StopWhen::~StopWhen() { stop_when = nullptr; }
bool is_stopped() noexcept { return stop_when != nullptr && stop_when->load(std::memory_order_relaxed); }

LinearProgram::Column LinearProgram::add_column(double objective) {
  objective_.push_back(objective);
  return static_cast<Column>(objective_.size() - 1);
}

LinearProgram::Row LinearProgram::at_most(double upper) {
  rows_.push_back({-COIN_DBL_MAX, upper, {}});
  return static_cast<Row>(rows_.size() - 1);
}

LinearProgram::Row LinearProgram::equal_to(double value) {
  rows_.push_back({value, value, {}});
  return static_cast<Row>(rows_.size() - 1);
}

void LinearProgram::add(Row row, Column column, double coefficient) {
  rows_[row].entries.push_back({column, coefficient});
}

void LinearProgram::tidy(Bounds& row) {
  std::vector<Entry>& entries = row.entries;
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.column < b.column; });
  std::size_t kept = 0;
  for (const Entry& entry : entries) {
    if (kept > 0 && entries[kept - 1].column == entry.column)
      entries[kept - 1].coefficient += entry.coefficient;
    else
      entries[kept++] = entry;
  }
  entries.resize(kept);
  std::erase_if(entries, [](const Entry& entry) { return entry.coefficient == 0; });
}

namespace {

tl::unexpected<Error> no_optimum(int status) {
  return fail(ErrorCode::kInvalidArgument,
              "the linear program has no optimum (Clp's status " + std::to_string(status) + ")");
}

}  // namespace

Result<LinearProgram::Solution> LinearProgram::solve() const {
  // Rows divided by their largest coefficient, so that links of one rack are seen to say the same.
  std::vector<Bounds> rows;
  std::unordered_multimap<std::uint64_t, std::size_t> seen;
  for (Bounds row : rows_) {
    tidy(row);
    if (row.entries.empty()) continue;
    double largest = 0;
    for (const Entry& entry : row.entries) largest = std::max(largest, std::abs(entry.coefficient));
    std::uint64_t hash = row.entries.size();
    for (Entry& entry : row.entries) {
      entry.coefficient /= largest;
      hash = mix64(hash ^ mix64(entry.column + std::bit_cast<std::uint64_t>(entry.coefficient)));
    }
    row.upper /= largest;
    if (row.lower > -COIN_DBL_MAX) {
      row.lower /= largest;
      rows.push_back(std::move(row));
      continue;
    }
    const auto [first, last] = seen.equal_range(hash);
    const auto same = std::find_if(first, last, [&](const auto& candidate) {
      const std::vector<Entry>& other = rows[candidate.second].entries;
      return std::equal(other.begin(), other.end(), row.entries.begin(), row.entries.end(),
                        [](const Entry& a, const Entry& b) {
                          return a.column == b.column && a.coefficient == b.coefficient;
                        });
    });
    if (same != last) {
      rows[same->second].upper = std::min(rows[same->second].upper, row.upper);
      continue;
    }
    seen.emplace(hash, rows.size());
    rows.push_back(std::move(row));
  }

  std::vector<int> starts(columns() + 1, 0);
  for (const Bounds& row : rows) {
    for (const Entry& entry : row.entries) ++starts[entry.column + 1];
  }
  for (std::size_t c = 0; c < columns(); ++c) starts[c + 1] += starts[c];
  std::vector<int> next(starts.begin(), starts.end() - 1);
  std::vector<int> indices(static_cast<std::size_t>(starts.back()));
  std::vector<double> elements(indices.size());
  std::vector<double> lower;
  std::vector<double> upper;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    lower.push_back(rows[r].lower);
    upper.push_back(rows[r].upper);
    for (const Entry& entry : rows[r].entries) {
      const auto at = static_cast<std::size_t>(next[entry.column]++);
      indices[at] = static_cast<int>(r);
      elements[at] = entry.coefficient;
    }
  }

  try {
    if (is_stopped()) return stopped();
    ClpSimplex model;
    model.setLogLevel(0);
    let_stop(model);
    model.loadProblem(static_cast<int>(columns()), static_cast<int>(rows.size()), starts.data(),
                      indices.data(), elements.data(), nullptr, nullptr, objective_.data(), lower.data(),
                      upper.data());
    model.setOptimizationDirection(-1);
    model.initialSolve();
    if (!model.isProvenOptimal()) {
      return fail(ErrorCode::kInvalidArgument,
                  "the linear program has no optimum (Clp's status " + std::to_string(model.status()) + ")");
    }
    Solution found{model.objectiveValue(), {}, rows.size()};
    const double* const values = model.primalColumnSolution();
    for (std::size_t c = 0; c < columns(); ++c) found.values.push_back(std::max(0.0, values[c]));
    return found;
  } catch (const CoinError& error) {
    return fail(ErrorCode::kInvalidArgument, "Clp failed: " + error.message());
  }
}

struct GrowingProgram::Model {
  ClpSimplex clp{};
  std::size_t columns = 0;
  // Columns that Clp does not have yet: it copies all it has whenever it gets some.
  std::vector<CoinBigIndex> starts{0};
  std::vector<int> rows{};
  std::vector<double> coefficients{};
  std::vector<double> objective{};

  void hand_over() {
    if (objective.empty()) return;
    const std::vector<double> lower(objective.size(), 0);
    const std::vector<double> upper(objective.size(), COIN_DBL_MAX);
    clp.addColumns(static_cast<int>(objective.size()), lower.data(), upper.data(), objective.data(),
                   starts.data(), rows.data(), coefficients.data());
    starts.assign(1, 0);
    rows.clear();
    coefficients.clear();
    objective.clear();
  }
};

GrowingProgram::GrowingProgram(const std::vector<double>& uppers) : model_(std::make_unique<Model>()) {
  ClpSimplex& clp = model_->clp;
  clp.setLogLevel(0);
  let_stop(clp);
  clp.resize(static_cast<int>(uppers.size()), 0);
  for (std::size_t r = 0; r < uppers.size(); ++r)
    clp.setRowBounds(static_cast<int>(r), -COIN_DBL_MAX, std::min(uppers[r], COIN_DBL_MAX));
  clp.setOptimizationDirection(-1);
}

GrowingProgram::~GrowingProgram() = default;

GrowingProgram::Column GrowingProgram::add(double objective, const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    model_->rows.push_back(static_cast<int>(entry.row));
    model_->coefficients.push_back(entry.coefficient);
  }
  model_->starts.push_back(static_cast<CoinBigIndex>(model_->rows.size()));
  model_->objective.push_back(objective);
  return static_cast<Column>(model_->columns++);
}

void GrowingProgram::close(Column column) {
  model_->hand_over();
  model_->clp.setColumnUpper(static_cast<int>(column), 0);
}

Result<GrowingProgram::Solution> GrowingProgram::solve() {
  if (is_stopped()) return stopped();
  try {
    model_->hand_over();
    ClpSimplex& clp = model_->clp;
    clp.primal();
    if (!clp.isProvenOptimal()) return no_optimum(clp.status());
    Solution found{clp.objectiveValue()};
    const double* const values = clp.primalColumnSolution();
    const double* const prices = clp.dualRowSolution();
    for (std::size_t c = 0; c < model_->columns; ++c) found.values.push_back(std::max(0.0, values[c]));
    for (int r = 0; r < clp.numberRows(); ++r) found.prices.push_back(std::abs(prices[r]));
    return found;
  } catch (const CoinError& error) {
    return fail(ErrorCode::kInvalidArgument, "Clp failed: " + error.message());
  }
}

}  // namespace tally::planner
