#include "engine/engine_operation.h"

#include <cstring>
#include <utility>

#include "engine/exact_sum.h"

namespace tally::engine {

EngineOperation::EngineOperation(OperationId id, ElementType type, Dtype dtype, std::vector<Segment> segments,
                                 const OperationOptions& options, TimeNs now)
    : id_(id), type_(type), dtype_(dtype), segments_(std::move(segments)), options_(options) {
  for (Segment& segment : segments_) {
    segment.start = stats.elements;
    stats.elements += segment.length;
  }
  stats.started = now;
}

void EngineOperation::number(std::uint64_t first, std::uint32_t words, std::uint32_t lookahead,
                             std::uint32_t world) noexcept {
  first_ = first;
  const bool one_packet = stats.elements <= exact_per_packet(words) && world <= kMostExact;
  const WireType wire = options_.wire;
  exact_ =
      dtype_ == Dtype::kFloat32 && (wire == WireType::kExact || (wire == WireType::kShortest && one_packet));
  per_chunk_ = exact_ ? exact_per_packet(words) : values_of_word() * words;
  data_chunks_ = (stats.elements + per_chunk_ - 1) / per_chunk_;
  priming_ = quantised() ? std::min<std::uint64_t>(data_chunks_, lookahead) : 0;
  stats.chunks = std::max<std::uint64_t>(priming_ + data_chunks_, 1);
  remaining = stats.chunks;
}

std::uint32_t EngineOperation::wire_elements(std::uint64_t m) const noexcept {
  const auto data = data_chunk(m);
  if (!data) return 0;
  const std::uint32_t count = range(*data).count * (exact_ ? kDigits : 1);
  const std::uint32_t granule = values_of_word() * kElementGranule;
  return (count + granule - 1) / granule * granule;
}

bool EngineOperation::all_zero(ElementRange range) const noexcept {
  const std::size_t each = bytes_of(type_);
  bool zero = true;
  for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    if (!zero || segment.in == nullptr) return;
    const auto* const from = static_cast<const unsigned char*>(segment.in) + offset * each;
    // The first byte is 0, and each is the one before it.
    zero = *from == 0 && std::memcmp(from, from + 1, n * each - 1) == 0;
  });
  return zero;
}

void EngineOperation::name_contributors(std::uint64_t members) {
  stats.contributors = members;
  stats.incomplete = !stats.partial.empty();
  stats.incomplete_chunks = stats.partial.size();
  std::sort(stats.partial.begin(), stats.partial.end(),
            [](const PartialSum& a, const PartialSum& b) { return a.first < b.first; });
  std::vector<PartialSum> joined;
  for (const PartialSum& next : stats.partial) {
    stats.contributors &= next.contributors;
    if (joined.empty() || joined.back().first + joined.back().count != next.first ||
        joined.back().contributors != next.contributors) {
      joined.push_back(next);
    } else {
      joined.back().count += next.count;
    }
  }
  stats.partial = std::move(joined);
}

// The last span that starts at or before the element: spans of length 0 before it start there too.
EngineOperation::Place EngineOperation::find_place(std::uint64_t element) const noexcept {
  const auto next = std::upper_bound(segments_.begin(), segments_.end(), element,
                                     [](std::uint64_t e, const Segment& s) { return e < s.start; });
  const auto span = static_cast<std::size_t>(next - segments_.begin()) - 1;
  last_spans_ = {span, last_spans_[0]};
  return {span, element - segments_[span].start};
}

std::string objection_to(Priority chosen) {
  const bool is_class = chosen.kind == Priority::Kind::kClass;
  const int most = is_class ? kGreatestClass : kGreatestPriority;
  if (chosen.kind == Priority::Kind::kOfWorker || (chosen.number >= 0 && chosen.number <= most)) return {};
  return std::string(is_class ? "priority: class " : "priority: ") + std::to_string(chosen.number) +
         " is not in 0.." + std::to_string(most);
}

}  // namespace tally::engine
