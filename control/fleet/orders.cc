#include "fleet/orders.h"

#include <algorithm>

namespace tally::fleet {

void Orders::begin(Outcome about, Transaction transaction, Judge judge, TimeNs now) {
  Open& one = open_.emplace_back();
  one.number = ++numbers_;
  one.about = std::move(about);
  one.transaction = std::move(transaction);
  one.judge = std::move(judge);
  one.begun = now;
  tick(now);
}

void Orders::tick(TimeNs now) {
  for (auto at = open_.begin(); at != open_.end();) {
    Open& one = *at;
    if (!one.asking && now >= one.begun + kPatience) {
      one.about.verdict = Outcome::Verdict::kUnknown;
      one.about.text = one.trouble;
      outcomes_.push_back(std::move(one.about));
      at = open_.erase(at);
      continue;
    }
    if (!one.asking && now >= one.next) {
      one.asking = true;
      errands_.ask(one.transaction, now + kTry,
                   [this, number = one.number](const Errands::Result& result, TimeNs then) {
                     answered(number, result, then);
                   });
    }
    ++at;
  }
}

void Orders::answered(std::uint64_t number, const Errands::Result& result, TimeNs now) {
  const auto at =
      std::find_if(open_.begin(), open_.end(), [&](const Open& one) { return one.number == number; });
  if (at == open_.end()) return;
  at->asking = false;
  at->next = now + kRetry;
  if (!result && (result.error().fault == Fault::kUnreachable || result.error().perhaps)) {
    at->trouble = result.error().text;
    return;
  }
  if (result) {
    at->judge(*result, at->about);
  } else {
    // A lease that is over takes its holder's seat with it.
    at->about.verdict =
        result.error().fault == Fault::kNoLease ? Outcome::Verdict::kFenced : Outcome::Verdict::kRefused;
    at->about.text = result.error().text;
  }
  outcomes_.push_back(std::move(at->about));
  open_.erase(at);
}

bool Orders::busy(Outcome::Kind kind, const std::string& job) const {
  return std::any_of(open_.begin(), open_.end(),
                     [&](const Open& one) { return one.about.kind == kind && one.about.job == job; });
}

}  // namespace tally::fleet
