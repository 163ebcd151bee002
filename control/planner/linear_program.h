#pragma once
// A linear program in the form in which plans are sought, and the only place that knows Clp (COIN-OR), which solves it:
//   maximise the sum of objective x column, where every column >= 0 and every row is "<= upper" or "== value".
// With all uppers >= 0 and all values 0, as plans have it, nothing at all is a solution, so one always exists.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tally/error.h"

namespace tally::planner {

// While it lives the programs of its thread fail soon after `over` is true, for nobody waits for what they find. One at a
// time in a thread; over: outlives it.
class StopWhen {
 public:
  explicit StopWhen(const std::atomic<bool>& over) noexcept;
  ~StopWhen();
  StopWhen(const StopWhen&) = delete;
  StopWhen& operator=(const StopWhen&) = delete;
};
[[nodiscard]] bool is_stopped() noexcept;

class LinearProgram {
 public:
  using Column = std::uint32_t;
  using Row = std::uint32_t;

  Column add_column(double objective);
  Row at_most(double upper);
  Row equal_to(double value);
  // Added to what the row has of the column already.
  void add(Row row, Column column, double coefficient);

  [[nodiscard]] std::size_t columns() const noexcept { return objective_.size(); }
  [[nodiscard]] std::size_t rows() const noexcept { return rows_.size(); }

  struct Solution {
    double objective = 0;
    std::vector<double> values;  // of the columns
    std::size_t rows = 0;        // that were left to the solver
  };
  // Fails if it has no bound, or with what else Clp says. Of rows that say the same of all columns only the
  // narrowest goes to the solver: the links of a rack under ECMP are such.
  [[nodiscard]] Result<Solution> solve() const;

 private:
  struct Entry {
    Column column = 0;
    double coefficient = 0;
  };
  struct Bounds {
    double lower = 0;
    double upper = 0;
    std::vector<Entry> entries;
  };
  // Columns in order, each once, and none that is 0.
  static void tidy(Bounds& row);
  static std::vector<std::size_t> first_rows(const std::vector<Bounds>& rows, std::size_t columns);
  static std::vector<std::size_t> broken_rows(const std::vector<Bounds>& rows, const std::vector<bool>& taken,
                                              const double* values);

  std::vector<double> objective_;
  std::vector<Bounds> rows_;
};

// A program that grows: columns are added between solutions, and each solution starts from the last one. Rows are all
// "<= upper" with uppers >= 0.
class GrowingProgram {
 public:
  using Column = std::uint32_t;
  struct Entry {
    std::uint32_t row = 0;
    double coefficient = 0;
  };

  explicit GrowingProgram(const std::vector<double>& uppers);
  ~GrowingProgram();
  GrowingProgram(const GrowingProgram&) = delete;
  GrowingProgram& operator=(const GrowingProgram&) = delete;

  // Each row at most once.
  Column add(double objective, const std::vector<Entry>& entries);
  // It is 0 from now on.
  void close(Column column);

  struct Solution {
    double objective = 0;
    std::vector<double> values{};  // of the columns
    std::vector<double> prices{};  // of the rows, >= 0: what one more of it would add to the objective
  };
  [[nodiscard]] Result<Solution> solve();

 private:
  struct Model;
  std::unique_ptr<Model> model_;
};

}  // namespace tally::planner
