#include "kv/table_server.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tally::kv {

TableServer::TableServer(Node& node, std::size_t most_bytes)
    : most_bytes_(most_bytes), core_(node, kTableApp) {
  core_.serve(
      kTableKind, [this](const Arrival& arrival) { take(arrival); },
      [this](int rank) {
        lost_.push_back(rank);
        for (auto& [number, table] : tables_) {
          std::vector<TableAnswer> answers;
          table.pass_time(steady_now(), answers);
          table.lose(rank, answers);
          publish();
          give(std::move(answers));
        }
      });
}

void TableServer::take(const Arrival& arrival) {
  TableMessage message = decode_table_message(arrival.data.vals);
  std::vector<TableAnswer> answers;
  const auto [at, is_new] = tables_.try_emplace(message.table, message.table, core_.workers());
  TableState& table = at->second;
  if (is_new) {
    for (const int rank : lost_) table.lose(rank, answers);
  }
  if (most_bytes_ != 0) {
    const std::size_t others = bytes_ - table.bytes();
    table.set_bound(most_bytes_ > others ? most_bytes_ - others : 1);
  }
  table.pass_time(steady_now(), answers);
  table.take(arrival.meta, std::move(message), answers);
  publish();  // before the answers: who has one may look
  give(std::move(answers));
}

// Of the statistics, and when it must look again.
void TableServer::publish() {
  TableServerStatistics now;
  TimeNs due = kNever;
  for (const auto& [number, one] : tables_) {
    ++now.tables;
    now.rounds += one.rounds();
    now.rows += one.rows();
    now.bytes += one.bytes();
    due = std::min(due, one.due());
  }
  table_count_ = now.tables;
  rounds_ = now.rounds;
  rows_ = now.rows;
  bytes_ = now.bytes;
  core_.set_alarm(due, [this] { look_at_the_time(); });
}

void TableServer::look_at_the_time() {
  std::vector<TableAnswer> answers;
  for (auto& [number, table] : tables_) table.pass_time(steady_now(), answers);
  publish();
  give(std::move(answers));
}

void TableServer::give(std::vector<TableAnswer> answers) {
  for (TableAnswer& answer : answers) {
    if (answer.failure) {
      core_.refuse(answer.to, answer.failure->what(), answer.failure->index());
      continue;
    }
    // An answer has a key, and so values, for form's sake; of a push they are its round.
    Payload data{SArray<Key>{0}, SArray<std::byte>(sizeof answer.round), {}};
    std::memcpy(data.vals.data(), &answer.round, sizeof answer.round);
    if (!answer.rows.empty()) {
      const auto rows = std::make_shared<std::vector<float>>(std::move(answer.rows));
      data.vals = {rows, reinterpret_cast<std::byte*>(rows->data()), rows->size() * sizeof(float)};
    }
    core_.respond(answer.to, data);
  }
}

TableServerStatistics TableServer::statistics() const { return {table_count_, rounds_, rows_, bytes_}; }

}  // namespace tally::kv
