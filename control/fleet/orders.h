#pragma once
// Transactions that somebody wants the outcome of: asked again until it is certain. Each is made so that doing it twice
// is doing it once. Owner: one thread.

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "fleet/errands.h"

namespace tally::fleet {

struct Outcome {
  enum class Kind : std::uint8_t { kPlan, kFacts, kDeclare, kWithdraw };
  enum class Verdict : std::uint8_t {
    kDone,
    kFenced,   // who ordered it is not any more who may
    kRefused,  // not so, and it will not be
    kUnknown,  // no certain answer came in time: it may have been done
  };
  Kind kind = Kind::kPlan;
  std::string job{};
  std::uint32_t number = 0;  // of a plan
  Verdict verdict = Verdict::kDone;
  std::string text{};  // why, for people; empty if it was done
};

// What a reply means: sets verdict and text.
using Judge = std::function<void(const Reply&, Outcome&)>;

class Orders {
 public:
  // An order that has no certain answer after this is given up.
  static constexpr TimeNs kPatience = 10 * kSecond;

  explicit Orders(Errands& errands) noexcept : errands_(errands) {}

  void begin(Outcome about, Transaction transaction, Judge judge, TimeNs now);
  void tick(TimeNs now);
  // One for that job is on its way.
  [[nodiscard]] bool busy(Outcome::Kind kind, const std::string& job) const;
  [[nodiscard]] std::vector<Outcome> take() { return std::exchange(outcomes_, {}); }

 private:
  struct Open {
    std::uint64_t number = 0;
    Outcome about{};
    Transaction transaction{};
    Judge judge{};
    TimeNs begun = 0;
    TimeNs next = 0;
    bool asking = false;
    std::string trouble{};
  };
  static constexpr TimeNs kTry = 3 * kSecond;
  static constexpr TimeNs kRetry = 250 * kMillisecond;

  void answered(std::uint64_t number, const Errands::Result& result, TimeNs now);

  Errands& errands_;
  std::list<Open> open_{};
  std::vector<Outcome> outcomes_{};
  std::uint64_t numbers_ = 0;
};

}  // namespace tally::fleet
