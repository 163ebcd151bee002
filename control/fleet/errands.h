#pragma once
// Requests that are out at the store, each with what is to be done when its answer comes; and what the answers tell
// of the store itself. Owner: one thread.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "fleet/store.h"

namespace tally::fleet {

class Errands {
 public:
  using Result = StoreResult;
  using Then = std::function<void(const Result&, TimeNs now)>;

  explicit Errands(Store& store) noexcept : store_(store) {}

  void ask(Request request, TimeNs deadline, Then then) {
    waiting_.emplace(store_.ask(std::move(request), deadline), std::move(then));
  }
  void give(const Answer& answer, TimeNs now) {
    const auto at = waiting_.find(answer.ticket);
    if (at == waiting_.end()) return;
    const Then then = std::move(at->second);
    waiting_.erase(at);
    if (answer.reply || (answer.reply.error().fault != Fault::kUnreachable &&
                         answer.reply.error().fault != Fault::kRefused)) {
      heard_at_ = now;
      trouble_.reset();
    } else {
      trouble_ = answer.reply.error();
    }
    then(answer.reply, now);
  }

  [[nodiscard]] Store& store() const noexcept { return store_; }
  // Of the last answers; empty: the store does what it is asked.
  [[nodiscard]] const std::optional<StoreError>& trouble() const noexcept { return trouble_; }
  // The last answer that was one of the store's.
  [[nodiscard]] std::optional<TimeNs> heard_at() const noexcept { return heard_at_; }

 private:
  Store& store_;
  std::map<Ticket, Then> waiting_{};
  std::optional<StoreError> trouble_{};
  std::optional<TimeNs> heard_at_{};
};

}  // namespace tally::fleet
