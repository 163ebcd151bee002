#pragma once
// A table at one of its servers: rounds, rows that are hot and so at the workers, and what becomes of both when a worker is
// lost. Messages come in and answers go out; what makes these rules necessary is in tests/models/hot_model.h. One thread.
//
// A round is applied when all workers have pushed it, and then answered: so who has an answer knows that this server has
// the round, and nobody's pull sees half of one. Of an asynchronous table it is applied when as many have as it waits for,
// or when its age is over; what is pushed is always in the round that is open, whichever its worker took it for, so nothing
// is lost and nothing applied twice (tests/models/late_model.h). With hot keys its rounds are of all, and called by the first
// server (table_clock.h). A session is from the first message of any worker to the end
// of all: closed, left, or lost. Rows outlive it. Of a table whose rounds are of all it is one life of each worker's, whatever
// comes late (tests/models/lives_model.h).

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv/rows.h"
#include "kv/table_clock.h"
#include "kv/table_message.h"
#include "tally/time.h"

namespace tally::kv {

struct TableAnswer {
  KVMeta to;
  std::vector<float> rows{};
  std::optional<Failure> failure{};  // instead
  std::uint64_t round = 0;  // of a push: the one that it is in; of a question: the one that is called
};

class TableState {
 public:
  TableState(int number, int workers);

  // Of worker from.rank(). Answers that are due now, its own or others', are appended.
  void take(const KVMeta& from, TableMessage message, std::vector<TableAnswer>& answers);
  void lose(int rank, std::vector<TableAnswer>& answers);
  // It is `now`: said before the other two, and at due().
  void pass_time(TimeNs now, std::vector<TableAnswer>& answers);
  [[nodiscard]] TimeNs due() const noexcept;  // when the open round's age is over, or kNever

  // Of bytes(), from now on; 0: none.
  void set_bound(std::size_t most_bytes) noexcept { bound_ = most_bytes; }
  [[nodiscard]] std::size_t rows() const noexcept { return rows_ ? rows_->size() : 0; }
  // Of rows, and of messages that wait for others'.
  [[nodiscard]] std::size_t bytes() const noexcept { return row_bytes() + held_bytes(); }
  [[nodiscard]] std::uint64_t rounds() const noexcept { return all_rounds_; }  // of all sessions

 private:
  struct Held {
    KVMeta from;
    TableMessage message;
  };
  // The last time that a row was fetched or came back in this session.
  struct Move {
    std::uint32_t set = 0;
    std::uint64_t rounds = 0;  // that are in it
    bool away = false;
  };

  void begin_session();
  [[nodiscard]] bool end_session_if_all_are_gone();
  void do_what_is_due(std::size_t i);
  void take_late(const KVMeta& from, const TableMessage& message);
  void agree(int rank, const TableMessage& message);
  void do_now(const Held& what);
  [[nodiscard]] bool is_asynchronous() const noexcept;
  [[nodiscard]] bool goes_on() const noexcept;  // without who is lost or leaves
  [[nodiscard]] bool is_here(std::size_t rank) const;
  [[nodiscard]] bool round_is_full() const;
  [[nodiscard]] std::size_t row_bytes() const noexcept { return rows_ ? rows_->bytes() : 0; }
  [[nodiscard]] std::size_t held_bytes() const noexcept;
  void throw_if_no_room(const TableMessage& message) const;
  void bound_rows(std::size_t held);
  void make_room_in_round(const TableMessage& message);
  void push(const Held& what);
  void ask(const Held& what);
  void tell(TableClock::Call call);
  void apply_round();
  void give(const Held& what);
  void lend(const TableMessage& message);
  void bring(const TableMessage& message);
  void check_set(const Held& what) const;
  [[nodiscard]] bool heard_of_set(std::uint32_t set);
  void throw_if_lost(std::span<const Key> keys) const;
  void close(const Held& what);
  void leave(const Held& what);
  void forget_close_of(int rank);
  void go_on_without_who_is_gone();
  void break_off(const std::string& why);
  void answer(const KVMeta& to, std::vector<float> rows = {});
  void refuse(const KVMeta& to, const Failure& failure);

  const std::string name_;
  const std::size_t workers_;
  std::size_t bound_ = 0;
  std::optional<Rows> rows_{};
  std::uint32_t width_ = 0;
  std::set<Key> lost_rows_{};  // with all the workers that had them
  std::set<int> lost_{};       // workers
  std::uint64_t all_rounds_ = 0;
  std::vector<std::uint64_t> over_;  // the last life of each worker that has ended here

  // Of the session.
  std::optional<TableTerms> terms_{};
  int first_ = 0;  // whose they are
  std::optional<TableClock> clock_{};
  std::string broken_{};
  std::uint64_t applied_ = 0;                  // rounds
  std::vector<bool> gone_{};                   // workers that have closed or left
  std::vector<std::optional<Held>> pushes_{};  // of the round, by rank
  std::size_t pushed_ = 0;
  TimeNs opened_ = 0;            // by the round's first push
  std::vector<Held> waiting_{};  // pulls and fetches for rows that are to come back
  std::vector<Held> closing_{};
  std::unordered_map<Key, Move> moves_{};
  std::uint32_t newest_ = 0;  // set that rows moved under
  std::uint32_t agreed_ = 0;  // set of the last round, as all who were in it said
  std::deque<Held> later_{};  // of the next session
  std::vector<TableAnswer>* answers_ = nullptr;
  TimeNs now_ = 0;
};

}  // namespace tally::kv
