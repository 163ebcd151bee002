#pragma once
// Plans: of one job, of several, and at once after something was lost. Pure functions of their arguments; the same
// arguments give the same plan to the bit. For any thread, one network at a time (Ways remembers).

#include <string>
#include <vector>

#include "planner/table.h"

namespace tally::planner {

// How the tables were found.
enum class Form : std::uint8_t { kOwnRacks, kAnyBox, kProduct, kFull };
[[nodiscard]] const char* name_of(Form form) noexcept;

// kAtOnce: closed forms alone. kProduct: the product form where those do not reach the bound. kFull: the full form too,
// where its bound promises more than 5 % above what the product form leaves after rounding.
enum class Effort : std::uint8_t { kAtOnce, kProduct, kFull };

struct Options {
  Effort effort = Effort::kFull;
  // A full form with more columns is not begun.
  std::size_t most_columns = 20'000;
};

struct Plan {
  std::string job;
  Tables tables{};
  Spread spread{};  // of chosen ways; empty: as ECMP does
  Form form = Form::kAnyBox;
  double rate = 0;           // Gbit/s that every worker can send, reckoned from the tables
  Resource binding = kNone;  // what is full then; kNone: the job wants no more
  Rates loads{};             // Gbit/s on each resource at that rate
  double promised = 0;       // Gbit/s, before the split was rounded to groups
  double bound = 0;  // Gbit/s that no plan exceeds, by closed form, or by the full form where it was solved
};

// Fails for a job that party_of() refuses, and if nothing is left for it: something that it needs is down or full.
[[nodiscard]] Result<Plan> make_plan(const Network& network, const Job& job, const Rates& capacity,
                                     const Options& options = {});
// The product form, by the program itself or by trees; of boxes no more than a worker can speak to.
[[nodiscard]] Result<Split> solve_product(const Network& network, const Party& party, const Rates& capacity);
// The same as make_plan() for a party whose boxes have limits.
[[nodiscard]] Result<Plan> make_plan(const Network& network, const std::string& job, const Party& party,
                                     const Rates& capacity, const Options& options = {});

}  // namespace tally::planner
