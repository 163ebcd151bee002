#include "slot_use.h"

#include "numbers.h"

namespace tally {
namespace {

constexpr std::string_view kShared = "shared slots";

}  // namespace

std::optional<SlotUse> slot_use(const BoxReport& report, const std::string& job) {
  const auto contributions = report.number("job", job, "contributions");
  const auto denied = report.number(kShared, job, "denied");
  const auto taken = report.number(kShared, job, "swaps");
  const auto lost = report.number(kShared, job, "evicted");
  if (!contributions || !denied || !taken || !lost) return std::nullopt;
  return SlotUse{*contributions, *denied, *taken, *lost};
}

std::optional<SlotUse> slot_use(const BoxReport& report, std::span<const std::string> jobs) {
  SlotUse all;
  for (const auto& job : jobs) {
    const auto one = slot_use(report, job);
    if (!one) return std::nullopt;
    all.contributions += one->contributions;
    all.denied += one->denied;
    all.taken += one->taken;
    all.lost += one->lost;
  }
  return all;
}

SlotUse since(const SlotUse& later, const SlotUse& earlier) {
  return {later.contributions - earlier.contributions, later.denied - earlier.denied,
          later.taken - earlier.taken, later.lost - earlier.lost};
}

std::string before_text(const std::string& jobs, const std::string& late, std::uint32_t slots,
                        const SlotUse& of_jobs) {
  return jobs + " are half way; of their contributions " + share_text(of_jobs.denied, of_jobs.contributions) +
         " found none of the " + with_commas(slots) + " slots. Now comes " + late + ".";
}

std::string meanwhile_text(const std::string& jobs, const std::string& late, const SlotUse& of_jobs,
                           const SlotUse& of_late) {
  // What was taken from a chunk of its own is in both.
  const std::uint64_t net = of_late.taken > of_late.lost ? of_late.taken - of_late.lost : 0;
  return late + " is done; it took " + with_commas(net) + " slots from " + jobs + ", and " +
         share_text(of_late.denied, of_late.contributions) + " of its contributions found none. Of theirs, " +
         share_text(of_jobs.denied, of_jobs.contributions) + " meanwhile.";
}

std::string listed(std::span<const std::string> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

}  // namespace tally
