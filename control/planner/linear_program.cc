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

constexpr std::size_t kFewRows = 400;
constexpr std::size_t kRowsOfColumn = 3;  // as many are few, too
constexpr double kBroken = 1e-9;  // of its upper
constexpr std::size_t kAtATime = 64;

// A program to which rows are added between solutions, each from the last one.
class RowByRow {
 public:
  explicit RowByRow(const std::vector<double>& objective) {
    clp_.setLogLevel(0);
    let_stop(clp_);
    clp_.resize(0, static_cast<int>(objective.size()));
    for (std::size_t c = 0; c < objective.size(); ++c)
      clp_.setObjectiveCoefficient(static_cast<int>(c), objective[c]);
    clp_.setOptimizationDirection(-1);
  }
  template <class Entries>
  void add(double lower, double upper, const Entries& entries) {
    for (const auto& entry : entries) {
      columns_.push_back(static_cast<int>(entry.column));
      coefficients_.push_back(entry.coefficient);
    }
    starts_.push_back(static_cast<CoinBigIndex>(columns_.size()));
    lower_.push_back(lower);
    upper_.push_back(upper);
  }
  // Whether there is an optimum. is_whole: no other rows will come.
  bool solve(bool is_whole) {
    clp_.addRows(static_cast<int>(lower_.size()), lower_.data(), upper_.data(), starts_.data(), columns_.data(),
                 coefficients_.data());
    starts_.assign(1, 0);
    for (auto* list : {&lower_, &upper_, &coefficients_}) list->clear();
    columns_.clear();
    // Nothing at all is a solution of the first rows; what solves them breaks those that come then.
    if (is_whole)
      clp_.initialSolve();
    else if (std::exchange(is_first_, false))
      clp_.primal();
    else
      clp_.dual();
    return clp_.isProvenOptimal();
  }
  [[nodiscard]] const double* values() const { return clp_.primalColumnSolution(); }
  [[nodiscard]] double objective() const { return clp_.objectiveValue(); }
  [[nodiscard]] int status() const { return clp_.status(); }

 private:
  ClpSimplex clp_{};
  bool is_first_ = true;
  // Rows that Clp does not have yet.
  std::vector<CoinBigIndex> starts_{0};
  std::vector<int> columns_{};
  std::vector<double> coefficients_{};
  std::vector<double> lower_{};
  std::vector<double> upper_{};
};

}  // namespace

// All of few rows. Of many few bind: equations, and of each column the row that holds it back most, so that there is a
// bound; others once a solution breaks them.
std::vector<std::size_t> LinearProgram::first_rows(const std::vector<Bounds>& rows, std::size_t columns) {
  std::vector<std::size_t> holder(columns, rows.size());
  std::vector<double> most(columns, COIN_DBL_MAX);
  std::vector<bool> is_first(rows.size(), rows.size() <= std::max(kFewRows, kRowsOfColumn * columns));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].lower == rows[r].upper) is_first[r] = true;
    for (const Entry& entry : rows[r].entries) {
      if (!(entry.coefficient > 0) || rows[r].upper / entry.coefficient >= most[entry.column]) continue;
      most[entry.column] = rows[r].upper / entry.coefficient;
      holder[entry.column] = r;
    }
  }
  for (const std::size_t r : holder) {
    if (r < rows.size()) is_first[r] = true;
  }
  std::vector<std::size_t> first;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (is_first[r]) first.push_back(r);
  }
  return first;
}

// Of rows that are not taken yet those that are broken most.
std::vector<std::size_t> LinearProgram::broken_rows(const std::vector<Bounds>& rows,
                                                    const std::vector<bool>& taken, const double* values) {
  std::vector<std::pair<double, std::size_t>> broken;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (taken[r]) continue;
    double sum = 0;
    for (const Entry& entry : rows[r].entries) sum += entry.coefficient * values[entry.column];
    const double over = (sum - rows[r].upper) / std::max(1.0, rows[r].upper);
    if (over > kBroken) broken.emplace_back(-over, r);
  }
  std::sort(broken.begin(), broken.end());
  std::vector<std::size_t> most;
  for (std::size_t i = 0; i < std::min(broken.size(), kAtATime); ++i) most.push_back(broken[i].second);
  return most;
}

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

  try {
    if (is_stopped()) return stopped();
    RowByRow clp(objective_);
    std::vector<bool> taken(rows.size());
    std::vector<std::size_t> next = first_rows(rows, columns());
    for (bool is_whole = next.size() == rows.size();;) {
      for (const std::size_t r : next) {
        taken[r] = true;
        clp.add(rows[r].lower, rows[r].upper, rows[r].entries);
      }
      const bool solved = clp.solve(is_whole);
      if (is_stopped()) return stopped();
      if (solved) {
        next = broken_rows(rows, taken, clp.values());
      } else {
        next.clear();  // it has no bound by these rows alone
        for (std::size_t r = 0; r < rows.size(); ++r)
          if (!taken[r]) next.push_back(r);
      }
      if (next.empty() && !solved) return no_optimum(clp.status());
      if (next.empty()) break;
    }
    Solution found{clp.objective(), {}, rows.size()};
    for (std::size_t c = 0; c < columns(); ++c) found.values.push_back(std::max(0.0, clp.values()[c]));
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
