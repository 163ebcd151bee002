#include "chunk_stream.h"

#include <algorithm>

#include "block_exponent.h"

namespace tally {

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

void ChunkStream::enter_epoch(const Membership& membership) noexcept {
  membership_ = membership;
  of_epoch_.job = Be<std::uint16_t>{raw(membership.job)};
  of_epoch_.rank = Be<std::uint16_t>{raw(self_)};
  of_epoch_.epoch = Be<std::uint32_t>{raw(membership.epoch)};
  of_epoch_.cookie = Be<std::uint64_t>{raw(membership.cookie)};
  shift_ = sum_shift(membership.world);
  window_.enter_epoch(membership.window);
  answered_at_.reset();
  rto_.forget_back_off();
  answers_.clear();
  direct_.clear();
  missing_ = 0;
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
  operation.number(numbered_end_, membership_.elements, membership_.lookahead);
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
  if (!answers_.empty() || !direct_.empty() || window_.any_ready() ||
      window_.cursor() < std::min(window_.limit(), numbered_end_))
    return 0;
  TimeNs due = kNever;
  if (const Flight* const oldest = window_.oldest_sent(); oldest != nullptr) {
    if (overtaken(*oldest)) return 0;
    due = std::max(rto_.due(oldest->sent_at), rto_.pause_end(membership_.window));
  }
  if (const Flight* const early = window_.oldest_early(); early != nullptr)
    due = std::min(due, rto_.early_due(early->sent_at));
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
  if (operation.dtype() != Dtype::kFloat32) return kNoExponent;
  return history_.find(operation.first() + data_chunk)->exponent;
}

void ChunkStream::find_first_expiry() noexcept {
  first_expiry_ = kNever;
  for (const auto& operation : operations_)
    first_expiry_ = std::min(first_expiry_, operation->options().deadline);
}

}  // namespace tally
