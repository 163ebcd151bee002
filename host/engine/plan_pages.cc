#include "engine/plan_pages.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "auth/auth.h"

namespace tally::engine {
namespace {

// What PLAN with a page says, or nothing if its lengths contradict each other.
struct PlanPage {
  PlanPayload fixed;
  std::string_view job;
  std::span<const std::byte> content;
};

std::optional<PlanPage> read_page(std::span<const std::byte> payload) noexcept {
  PlanPage page;
  page.fixed = wire_at<PlanPayload>(payload.data());
  const auto rest = auth::body_of(payload).subspan(sizeof page.fixed);
  const std::size_t name = page.fixed.name_bytes;
  if (rest.size() != name + page.fixed.page_bytes.host()) return std::nullopt;
  page.job = {reinterpret_cast<const char*>(rest.data()), name};
  page.content = rest.subspan(name);
  return page;
}

std::size_t bytes_of_page(std::size_t plan, std::uint32_t page) noexcept {
  return std::min(kPlanPageBytes, plan - page * kPlanPageBytes);
}

}  // namespace

std::vector<std::uint8_t> places_of(const Plan& plan, BoxIndex home) {
  std::vector<std::uint8_t> places;
  places.reserve(plan.boxes.size());
  std::uint8_t next = 1;
  for (std::size_t box = 0; box < plan.boxes.size(); ++box)
    places.push_back(box == home ? std::uint8_t{0} : next++);
  return places;
}

Said say_plan(const Speaker& speaker, const PlanId& id, std::uint32_t bytes, std::uint8_t page,
              std::span<const std::byte> content, std::span<std::byte> out) noexcept {
  const std::string_view job = speaker.options().job;
  PlanPayload said;
  said.plan = id;
  said.bytes = Be{bytes};
  said.page = page;
  said.name_bytes = static_cast<std::uint8_t>(job.size());
  said.page_bytes = Be{static_cast<std::uint16_t>(content.size())};
  wire_put(out.data() + kHeaderBytes, said);
  std::byte* const text = out.data() + kHeaderBytes + sizeof said;
  std::memcpy(text, job.data(), job.size());
  std::copy(content.begin(), content.end(), text + job.size());
  Header header;
  header.type = PacketType::kPlan;
  header.rank = Be{raw(speaker.options().rank)};
  return speaker.say(header, sizeof said + job.size() + content.size(), speaker.job_key(), out);
}

Said say_plan(const Speaker& speaker, const EpochPlan& plan, std::uint8_t page,
              std::span<std::byte> out) noexcept {
  const auto content =
      std::span(plan.bytes).subspan(page * kPlanPageBytes, bytes_of_page(plan.bytes.size(), page));
  return say_plan(speaker, plan.id, static_cast<std::uint32_t>(plan.bytes.size()), page, content, out);
}

void PlanFetch::start(const PlanId& id, std::uint32_t plan_bytes, TimeNs now) {
  if (running() && id == id_ && bytes_.size() == plan_bytes) return;
  id_ = id;
  bytes_.assign(plan_bytes, std::byte{});
  missing_ = pages_of(plan_bytes);
  asked_ = 0;
  repeat_ = {};
  repeat_.start(now);
}

std::optional<Refused> PlanFetch::receive(const Datagram& datagram, const Speaker& speaker, TimeNs now,
                                          std::shared_ptr<const EpochPlan>& whole) {
  if (!running()) return Refused::kState;
  const auto page = read_page(datagram.payload);
  if (!page) return Refused::kLength;
  if (!auth::verify(speaker.job_key(), datagram.header, datagram.payload)) return Refused::kTag;
  const std::uint32_t number = page->fixed.page;
  if (page->job != speaker.options().job || page->fixed.plan != id_ ||
      page->fixed.bytes.host() != bytes_.size() || number >= plan_pages(bytes_.size()) ||
      page->content.size() != bytes_of_page(bytes_.size(), number))
    return Refused::kJoined;
  const std::uint64_t bit = std::uint64_t{1} << number;
  if ((missing_ & bit) == 0) return Refused::kLate;
  std::ranges::copy(page->content, bytes_.begin() + static_cast<std::ptrdiff_t>(number * kPlanPageBytes));
  missing_ &= ~bit;
  asked_ &= ~bit;
  repeat_.start(now);
  repeat_.put_off(now + kFirstRepeat);
  if (missing_ != 0) return std::nullopt;
  auto plan = auth::plan_id(bytes_) == id_ ? read_plan(bytes_) : std::nullopt;
  if (!plan) {
    start(id_, static_cast<std::uint32_t>(bytes_.size()), now);
    repeat_.said(now);  // who sends wrong pages is not asked as fast as it answers
    asked_ = missing_;
    return Refused::kJoined;
  }
  whole = std::make_shared<const EpochPlan>(EpochPlan{id_, std::move(bytes_), std::move(*plan)});
  bytes_ = {};
  return std::nullopt;
}

Said PlanFetch::transmit(const Speaker& speaker, std::span<std::byte> out, TimeNs now) noexcept {
  if (due() > now) return {};
  if (!may_ask()) asked_ = 0;  // the wishes, or what answers them, are lost
  const auto page = static_cast<std::uint8_t>(std::countr_zero(missing_ & ~asked_));
  if (asked_ == 0) repeat_.said(now);
  asked_ |= std::uint64_t{1} << page;
  return say_plan(speaker, id_, static_cast<std::uint32_t>(bytes_.size()), page, {}, out);
}

}  // namespace tally::engine
