#include "engine/chunk_stream.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "engine/chunk_codec.h"
#include "engine/engine_operation.h"
#include "engine/plan_pages.h"

namespace tally::engine {

bool ChunkStream::start(const Membership& membership) {
  membership_ = membership;
  window_.start(membership.largest_window);
  numbered_end_ = 0;
  if (!history_.start(membership.largest_window, membership.elements)) return false;
  started_ = true;
  for (const auto& operation : operations_) number(*operation);
  ++statistics_.generations;
  return true;
}

void ChunkStream::enter_epoch(const Membership& membership, std::span<const Ipv6> boxes) {
  membership_ = membership;
  self_ = membership.rank;
  of_epoch_.job = Be<std::uint16_t>{raw(membership.job)};
  of_epoch_.rank = Be<std::uint16_t>{raw(self_)};
  of_epoch_.epoch = Be<std::uint32_t>{raw(membership.epoch)};
  of_epoch_.cookie = Be<std::uint64_t>{raw(membership.cookie)};
  shifts_ = {sum_shift(membership.world, Dtype::kFloat32), sum_shift(membership.world, Dtype::kInt16)};
  put_boxes(boxes);
  put_ways();
  window_.enter_epoch(membership.window, boxes_.size(), ways_.size());
  answered_at_.reset();
  gone_since_ = kNever;
  answers_.clear();
  direct_.clear();
  missing_ = 0;
  zeros_ = {};
}

// What was counted at a box it keeps as long as the epochs have it.
void ChunkStream::put_boxes(std::span<const Ipv6> addresses) {
  if (membership_.plan == nullptr) {
    boxes_.resize(1);
  } else {
    std::vector<StreamBox> next(addresses.size());
    for (std::size_t i = 0; i < next.size(); ++i) {
      const auto known = std::find_if(boxes_.begin(), boxes_.end(),
                                      [&](const StreamBox& box) { return box.address == addresses[i]; });
      if (known != boxes_.end()) next[i] = *known;
      next[i].address = addresses[i];
    }
    boxes_ = std::move(next);
  }
  for (StreamBox& box : boxes_) {
    const bool home = &box == &boxes_.front();
    box.open = home;
    box.job = home ? membership_.job : JobId{};
    box.shards = home ? membership_.shards : 1;
    box.sequences = {};
    box.answered_at.reset();
  }
}
// What is known of the round trip on a way it keeps likewise.
void ChunkStream::put_ways() {
  const EpochPlan* const plan = membership_.plan.get();
  if (plan == nullptr) {
    routes_.reset();
    ways_.resize(1, Way(rto_floor_));
    ways_.front().box = 0;
  } else {
    ways_ = ways_of(plan->plan);
  }
  for (Way& way : ways_) {
    way.window = membership_.window;
    way.answered_at.reset();
    way.rto.forget_back_off();
  }
  if (!routes_) return;
  std::vector<std::uint32_t> groups(ways_.size());
  for (const std::uint8_t way : *routes_) ++groups[way];
  for (std::size_t i = 0; i < ways_.size(); ++i)
    ways_[i].window = std::max(1U, membership_.window * groups[i] / kPlanGroups);
}

// And the way of each group.
std::vector<ChunkStream::Way> ChunkStream::ways_of(const Plan& plan) {
  using BoxAndEnd = std::pair<std::uint8_t, std::uint8_t>;
  const auto places = places_of(plan, membership_.home_box);
  std::array<BoxAndEnd, kPlanGroups> of_group{};
  for (std::uint32_t group = 0; group < kPlanGroups; ++group) {
    const BoxIndex box = plan.route(self_, Chunk{group}).box;
    const bool whole = plan.here(box, group) == membership_.members();
    of_group[group] = {places[box], whole ? Way::kAtBox : plan.servers[group]};
  }
  const auto distinct = [&of_group] {
    std::vector<BoxAndEnd> all(of_group.begin(), of_group.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  };
  std::vector<BoxAndEnd> taken = distinct();
  if (taken.size() > kMostWays) {
    for (BoxAndEnd& of : of_group) of.second = Way::kAnywhere;
    taken = distinct();
  }
  std::vector<Way> ways;
  ways.reserve(taken.size());
  for (const auto& [box, end] : taken) {
    const Ipv6& address = boxes_[box].address;
    const auto known = std::find_if(ways_.begin(), ways_.end(), [&address, end = end](const Way& way) {
      return way.address == address && way.end == end;
    });
    ways.push_back(known == ways_.end() ? Way(rto_floor_) : *known);
    ways.back().address = address;
    ways.back().box = box;
    ways.back().end = end;
  }
  if (!routes_) routes_ = std::make_unique<std::array<std::uint8_t, kPlanGroups>>();
  for (std::uint32_t group = 0; group < kPlanGroups; ++group) {
    const auto at = std::lower_bound(taken.begin(), taken.end(), of_group[group]);
    (*routes_)[group] = static_cast<std::uint8_t>(at - taken.begin());
  }
  return ways;
}

void ChunkStream::open_box(std::size_t box, JobId job, std::uint32_t shards) noexcept {
  StreamBox& opened = boxes_[box];
  opened.job = job;
  opened.shards = shards;
  opened.open = true;
  // All of the window: another box may have set the cursor back a moment ago.
  for (std::uint64_t index = window_.lowest(); window_.contains(index); ++index) {
    Flight& flight = window_.at(index);
    if (flight.state == FlightState::kBlocked && flight.box == box) window_.take_back(flight);
  }
}

// Its chunks wait for another epoch; a result that is on its way is taken.
void ChunkStream::shut_box(std::size_t box) noexcept {
  boxes_[box].open = false;
  for (std::uint64_t index = window_.lowest(); window_.contains(index); ++index) {
    Flight& flight = window_.at(index);
    const bool waits = flight.state == FlightState::kSent || flight.state == FlightState::kReady;
    if (waits && flight.box == box) window_.hold(flight);
  }
}

void ChunkStream::fail_all(const Error& error, const StreamFailure* culprit) {
  for (const auto& operation : operations_) {
    if (!operation->reported) continue;
    const bool guilty = culprit != nullptr && culprit->id == operation->id();
    completions_.push_back({operation->id(), tl::unexpected<Error>(guilty ? culprit->error : error)});
  }
  operations_.clear();
  taken_up_ = nullptr;
  answers_.clear();
  direct_.clear();
  window_.start(0);
  numbered_end_ = 0;
  failure_.reset();
  first_expiry_ = kNever;
  missing_ = 0;
  started_ = false;
}

void ChunkStream::submit(std::unique_ptr<EngineOperation> operation) {
  if (started_) number(*operation);
  first_expiry_ = std::min(first_expiry_, operation->options().deadline);
  operations_.push_back(std::move(operation));
}

void ChunkStream::number(EngineOperation& operation) noexcept {
  operation.number(numbered_end_, membership_.elements, membership_.lookahead, membership_.world);
  numbered_end_ = operation.end();
}

std::optional<Completion> ChunkStream::next_completion() {
  if (completions_.empty()) return std::nullopt;
  std::optional<Completion> first(std::move(completions_.front()));
  completions_.pop_front();
  return first;
}

const EngineOperation* ChunkStream::expired(TimeNs now) const noexcept {
  if (now < first_expiry_) return nullptr;
  for (const auto& operation : operations_)
    if (operation->options().deadline <= now) return operation.get();
  return nullptr;
}

TimeNs ChunkStream::deadline() const noexcept {
  if (!answers_.empty() || !direct_.empty() || window_.any_ready() || window_.first_lost() != nullptr ||
      anything_new())
    return 0;
  TimeNs due = kNever;
  for (std::size_t way = 0; way < ways_.size(); ++way) {
    if (const Flight* const oldest = window_.oldest_sent(way); oldest != nullptr)
      due = std::min(due, due_of(*oldest));
    if (const Flight* const unfinished = window_.first_unfinished(way); unfinished != nullptr)
      due = std::min(due, repair_due(*unfinished));
    if (const Flight* const early = window_.oldest_early(way); early != nullptr)
      due = std::min(due, question_due(*early));
  }
  if (const Flight* const lowest = window_.lowest_sent(); lowest != nullptr)
    due = std::min(due, lowest_due(*lowest));
  return due;
}

std::optional<std::uint64_t> ChunkStream::index_of(Chunk chunk) const noexcept {
  const std::int64_t ahead = serial_difference(chunk, lowest_chunk());
  if (ahead < 0 && static_cast<std::uint64_t>(-ahead) > window_.lowest()) return std::nullopt;
  return window_.lowest() + static_cast<std::uint64_t>(ahead);
}

EngineOperation* ChunkStream::operation_of(std::uint64_t index) noexcept {
  if (taken_up_ != nullptr && index - taken_up_->first() < taken_up_->stats.chunks) return taken_up_;
  const auto after =
      std::upper_bound(operations_.begin(), operations_.end(), index,
                       [](std::uint64_t i, const auto& operation) { return i < operation->first(); });
  return taken_up_ = std::prev(after)->get();
}

int ChunkStream::exponent_of(const EngineOperation& operation, std::uint64_t data_chunk) const noexcept {
  if (!operation.quantised()) return kNoExponent;
  return history_.find(operation.first() + data_chunk)->exponent;
}

void ChunkStream::find_first_expiry() noexcept {
  first_expiry_ = kNever;
  for (const auto& operation : operations_)
    first_expiry_ = std::min(first_expiry_, operation->options().deadline);
}

}  // namespace tally::engine
