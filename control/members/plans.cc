// Plans: the one that takes all boxes alike, what may be asked of one, and how it comes page by page.

#include <algorithm>
#include <bit>
#include <utility>

#include "auth/auth.h"
#include "members/plan_pages.h"
#include "members/plan_source.h"

namespace tally::members {
namespace {

std::span<const std::byte> page_of(std::span<const std::byte> bytes, std::uint32_t page) noexcept {
  const std::size_t first = page * kPlanPageBytes;
  return bytes.subspan(first, std::min(kPlanPageBytes, bytes.size() - first));
}

std::uint64_t all_pages(std::uint32_t bytes) noexcept {
  const std::uint32_t pages = plan_pages(bytes);
  return pages >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << pages) - 1;
}

}  // namespace

Plan even_plan(const PlanRequest& request) {
  Plan plan;
  for (std::size_t i = 0; i < request.addresses.size(); ++i) {
    if ((request.usable >> i & 1U) != 0) plan.boxes.push_back(request.addresses[i]);
  }
  plan.server_count = request.servers;
  plan.table_of.assign(request.world, 0);
  plan.tables.resize(1);
  // In turn, so a run of chunks, which are what is on its way at one time, is spread as the whole is.
  for (std::size_t group = 0; group < kPlanGroups; ++group) {
    plan.servers[group] = static_cast<std::uint8_t>(group % request.servers);
    plan.tables[0][group].box = static_cast<BoxIndex>(group % plan.boxes.size());
  }
  return plan;
}

bool fits(const Plan& plan, const PlanRequest& request) {
  const bool sized = plan.boxes.size() <= kMaxPlanBoxes && plan.tables.size() <= kMaxPlanTables &&
                     plan.table_of.size() == request.world && plan.server_count == request.servers;
  // The rest is what who reads it asks for.
  if (!sized || read_plan(write_plan(plan)) != plan) return false;
  return std::all_of(plan.boxes.begin(), plan.boxes.end(), [&](const Ipv6& box) {
    const auto at = std::find(request.addresses.begin(), request.addresses.end(), box);
    return at != request.addresses.end() && (request.usable >> (at - request.addresses.begin()) & 1U) != 0;
  });
}

std::shared_ptr<const NamedPlan> NamedPlan::of(Plan plan) {
  auto named = std::make_shared<NamedPlan>();
  named->bytes = write_plan(plan);
  named->id = auth::plan_id(named->bytes);
  named->plan = std::move(plan);
  return named;
}

BoxIndex NamedPlan::index_of(const Ipv6& address) const noexcept {
  const auto at = std::find(plan.boxes.begin(), plan.boxes.end(), address);
  return at == plan.boxes.end() ? PlannedText::kNoBox : static_cast<BoxIndex>(at - plan.boxes.begin());
}

std::span<const std::byte> NamedPlan::page(std::uint32_t page) const noexcept { return page_of(bytes, page); }

PlanPages::PlanPages(const PlanId& id, std::uint32_t bytes)
    : id_(id), size_(bytes), missing_(all_pages(bytes)) {}

PlanPages::Fate PlanPages::take(std::uint32_t page, std::span<const std::byte> content) {
  if (page >= plan_pages(size_)) return Fate::kUnfit;
  const std::size_t first = page * kPlanPageBytes;
  if (content.size() != std::min<std::size_t>(kPlanPageBytes, size_ - first)) return Fate::kUnfit;
  const std::uint64_t bit = std::uint64_t{1} << page;
  if ((missing_ & bit) == 0) return Fate::kTwice;
  bytes_.resize(size_);
  std::copy(content.begin(), content.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(first));
  missing_ &= ~bit;
  if (missing_ != 0) return Fate::kKept;
  if (auth::plan_id(bytes_) == id_) return Fate::kWhole;
  missing_ = all_pages(size_);
  return Fate::kBroken;
}

std::shared_ptr<const NamedPlan> PlanPages::plan() {
  std::vector<std::byte> bytes = std::exchange(bytes_, {});
  auto plan = read_plan(bytes);
  if (!plan) return nullptr;
  auto named = std::make_shared<NamedPlan>();
  named->id = id_;
  named->bytes = std::move(bytes);
  named->plan = *std::move(plan);
  return named;
}

}  // namespace tally::members
