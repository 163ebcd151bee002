#pragma once
// A table (docs/kv.md) in virtual time, from the first pull of its workers to their last: the product's hot rows and engines,
// which sum through the simulated box, and its table states at servers that are spoken to over connections. These delay, keep
// the order, and end with either of their ends. What the library's threads do between them (host/kv/table_worker.cc) is told
// again in table_member.h. The oracle is docs/kv.md: each pull has the sums of all rounds before it, and what is at the
// servers in the end has all that was committed.

#include <cstdint>
#include <memory>
#include <vector>

#include "kv/table_state.h"
#include "table_member.h"

namespace tally::sim {

struct TableReport : Report {
  std::uint64_t rounds = 0;  // committed at all workers that are left
  std::uint64_t sets = 0;    // of hot keys that came into force at one of them
  std::uint64_t moves = 0;   // rows that came to workers or left them
  bool over = false;         // before its workers closed it
  std::uint64_t workers_lost = 0, servers_lost = 0;
};

[[nodiscard]] TablePlan table_plan_of(std::uint64_t seed, const Scenario& scenario);

class TableLife final : private TableWorld {
 public:
  explicit TableLife(std::uint64_t seed);

  TableReport run();
  [[nodiscard]] Simulation& simulation() noexcept override { return simulation_; }

 private:
  struct Server {
    kv::TableState state;
    bool alive = true;
    TimeNs cut = kNever;  // what it has sent arrives until then
  };
  struct Way {
    TimeNs last = 0;  // arrival
  };

  [[nodiscard]] const TablePlan& plan() const noexcept override { return plan_; }
  [[nodiscard]] TableBatch batch(std::uint64_t round, std::size_t rank) const override;
  [[nodiscard]] const std::vector<float>& truth(std::uint64_t rounds) override;
  [[nodiscard]] bool is_row(std::uint64_t rounds, kv::Key key, const float* row) override;
  [[nodiscard]] std::size_t server_of(kv::Key key) const noexcept override;
  void to_server(std::size_t worker, std::size_t server, const kv::SArray<std::byte>& bytes,
                 int number) override;
  void to_worker(std::size_t server, std::vector<kv::TableAnswer> answers);
  [[nodiscard]] TimeNs arrival(Way& way);
  void lose(const TablePlan::Loss& loss);
  void lose_worker(std::size_t rank);
  void lose_server(std::size_t server);
  [[nodiscard]] bool done() const;
  void over(const kv::Failure& why, bool by_box) override;
  void check_at_the_end();

  const std::uint64_t seed_;
  Scenario scenario_;
  TablePlan plan_;
  Simulation simulation_;
  Rng rng_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<TableMember>> members_;
  std::vector<std::vector<Way>> up_, down_;  // by worker and server
  std::vector<std::vector<float>> truth_;
  TableReport report_;
  bool excused_ = false;  // something was lost that ends a table
};

}  // namespace tally::sim
