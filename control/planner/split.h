#pragma once
// Phase 2: which part of the gradient is summed where, as linear programs. Both forms maximise the rate f of every
// worker, subject to what each link, box and server can take.
//
// Product form: one distribution over the boxes for all racks and servers. Of a part every rack uses the same box; the
// rest each rack gives to its own box as far as that goes, or sends to the servers. It has a column for each box and
// each rack, and more only where ways may be chosen.
// Full form: every rack has its own distribution for every server. It promises more than can be published, since the
// racks of one chunk must meet at few boxes, and is a hundred times as large.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "planner/job.h"
#include "planner/ways.h"

namespace tally::planner {

// kEcmp: the network spreads by itself, equally. kChosen: every shortest way gets the part that serves best.
enum class Routing : std::uint8_t { kEcmp, kChosen };
// kIgnored: results find their room, as the literature has it. kCounted: they go back the ways that contributions
// came, and take as much of the links in the other direction.
enum class Results : std::uint8_t { kIgnored, kCounted };

struct Network {
  const Topology& topology;
  Ways& ways;
  Routing routing = Routing::kEcmp;
  Results results = Results::kIgnored;
};

// A worker keeps an estimator for each box it speaks to.
inline constexpr std::size_t kBoxesOfWorker = 64;

// A rack's part of the gradient goes to a box, or directly to the server.
inline constexpr Index kDirect = kNone;
struct Part {
  Index place = kDirect;
  double amount = 0;  // of the whole gradient
};

// How traffic is spread over the ways, where that is not ECMP's.
class Spread {
 public:
  // from: a switch; to: a box or a server. Empty: as ECMP does.
  [[nodiscard]] const std::vector<double>* to_box(Index from, Index to) const {
    return find(to_box_, from, to);
  }
  [[nodiscard]] const std::vector<double>* to_server(Index from, Index to) const {
    return find(to_server_, from, to);
  }
  [[nodiscard]] bool empty() const noexcept { return to_box_.empty() && to_server_.empty(); }
  // What flows over each way; normalised.
  void put_to_box(Index from, Index to, const std::vector<double>& flows) { put(to_box_, from, to, flows); }
  void put_to_server(Index from, Index to, const std::vector<double>& flows) {
    put(to_server_, from, to, flows);
  }

 private:
  using Kept = std::map<std::pair<Index, Index>, std::vector<double>>;
  static const std::vector<double>* find(const Kept& kept, Index from, Index to);
  static void put(Kept& kept, Index from, Index to, const std::vector<double>& flows);

  Kept to_box_;
  Kept to_server_;
};

// What one server merges, of the full form.
struct Portion {
  // Of each rack of the party: its parts in the order in which they are laid side by side, so that racks which use one
  // box do so for the same chunks. They add up to the server's share.
  std::vector<std::vector<Part>> racks{};
};

struct Split {
  double rate = 0;  // Gbit/s, as the linear program has it; rounding leaves less
  // Product form and closed forms: boxes that all racks use; and of each rack, what of the rest its own box merges.
  std::vector<Part> shared{};
  double rest = 0;
  std::vector<double> own{};
  // Full form: of each server of the party; else empty.
  std::vector<Portion> portions{};
  Spread spread{};
  // No split of this form exceeds it, Gbit/s: the rate, where the program was solved to its end.
  double bound = std::numeric_limits<double>::infinity();
  std::size_t columns = 0;  // of the program; 0: closed form
};

// Fails if nobody can reach anything: a link, a box or a server that all need has nothing left.
[[nodiscard]] Result<Split> product_form(const Network& network, const Party& party, const Rates& capacity);
// The same with these boxes as those that all racks may use; own racks' boxes serve their racks besides.
[[nodiscard]] Result<Split> product_form(const Network& network, const Party& party, const Rates& capacity,
                                         const std::vector<Index>& boxes);
// How many columns that has, without making it.
[[nodiscard]] std::size_t product_form_columns(const Network& network, const Party& party,
                                               const std::vector<Index>& boxes);
// Boxes that have something left, which all racks reach and which reach all servers.
[[nodiscard]] std::vector<Index> usable_boxes(const Network& network, const Party& party,
                                              const Rates& capacity);
// Without a linear program: the parts that are best if links between switches never bind. own_racks: every box
// serves its own rack, else any, of the largest so many as a worker can speak to.
[[nodiscard]] Split closed_form_split(const Network& network, const Party& party, const Rates& capacity,
                                      bool own_racks);

// Which boxes a rack (of Party::racks) may use.
using Allowed = std::function<bool(std::size_t rack, Index box)>;
[[nodiscard]] Result<Split> full_form(const Network& network, const Party& party, const Rates& capacity,
                                      const Allowed& allowed);
// How many columns full_form() would have, without making it.
[[nodiscard]] std::size_t full_form_columns(const Network& network, const Party& party,
                                            const Rates& capacity);

}  // namespace tally::planner
