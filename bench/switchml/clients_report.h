#pragma once
// What the clients did, as a table for people and JSON for programs. Pure.

#include <optional>
#include <string>
#include <vector>

#include "clients_options.h"
#include "perf/machine.h"
#include "stock_session.h"

namespace tally::stock {

struct SessionOutcome {
  std::string name{};
  std::size_t members = 0;
  std::uint64_t elements = 0;  // of all operations
  double seconds =
      0;  // from the first request to the last result; values are made before, and checked behind
  std::optional<double> box_cpu_s{};  // of tallyd meanwhile, with --pid
  SessionFigures figures{};
  double largest_error = 0;  // of float32, in parts of the bound
  std::string wrong{};       // empty: every sum and every byte was right

  // Requests, with resends: contributions as a box counts them. 0: the session did not end.
  [[nodiscard]] double packets_per_s() const noexcept {
    return per_s(figures.counters.sent + figures.counters.resent);
  }
  // Values contributed by all members.
  [[nodiscard]] double elements_per_s() const noexcept { return per_s(elements * members); }
  [[nodiscard]] double per_s(std::uint64_t count) const noexcept {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  }
};

[[nodiscard]] std::string clients_table(const std::vector<SessionOutcome>& outcomes);
[[nodiscard]] std::string clients_json(const perf::Machine& machine, const ClientsOptions& options,
                                       const std::vector<SessionOutcome>& outcomes);

}  // namespace tally::stock
