#pragma once
// When the rounds of an asynchronous table with hot keys begin: one of its servers calls them. All workers take part in each,
// whatever their programs do, as a sum through the box needs all; with what their programs have pushed by then
// (docs/kv.md, Rounds that are called; tests/models/called_model.h). Pure; one thread.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kv/table_message.h"
#include "tally/kv_core.h"
#include "tally/time.h"

namespace tally::kv {

class TableClock {
 public:
  static constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();  // called when all close

  // least: workers whose pushes call a round; 0: all.
  TableClock(std::size_t workers, std::size_t least, TimeNs age);

  struct Call {
    std::vector<KVMeta> to{};
    std::uint64_t round = 0;  // or kEnd
  };
  // A worker for which so many rounds have ended asks about the next. Throws a Failure if it cannot be at that one.
  [[nodiscard]] Call take(const KVMeta& from, TableAct says, std::uint64_t rounds, TimeNs now);
  [[nodiscard]] Call call();                   // the round, at due()
  [[nodiscard]] TimeNs due() const noexcept;   // kNever: nobody has pushed
  [[nodiscard]] std::vector<KVMeta> forget();  // who has asked; nothing more is called

 private:
  [[nodiscard]] Call answer_all(std::uint64_t round);
  [[nodiscard]] std::size_t count(TableAct says) const;

  const std::size_t least_;
  const TimeNs age_;
  std::uint64_t called_ = 0;  // rounds
  // About the round that is not called yet: what each worker said last, and its questions.
  std::vector<TableAct> said_;
  std::vector<KVMeta> waiting_{};
  TimeNs opened_ = 0;  // by the round's first push
};

}  // namespace tally::kv
