#include "http/event_history.h"

#include <limits>
#include <utility>

#include "text/text.h"

namespace tally::http {

std::string frame_text(std::string_view kind, std::string_view data, std::string_view id) {
  std::string text;
  text.reserve(kind.size() + data.size() + id.size() + 24);
  if (!id.empty()) text.append("id: ").append(id).append("\n");
  return text.append("event: ").append(kind).append("\ndata: ").append(data).append("\n\n");
}

std::string gap_text(std::uint64_t missed) {
  return frame_text("gap", "{\"missed\":" + std::to_string(missed) + "}");
}

std::vector<Frame> EventHistory::add(std::uint64_t number, std::string_view text) {
  std::vector<Frame> out;
  if (newest_ != 0 && number > newest_ + 1)
    out.push_back(std::make_shared<const std::string>(gap_text(number - newest_ - 1)));
  const std::string id = life_ + "-" + std::to_string(number);
  out.push_back(std::make_shared<const std::string>(frame_text("event", text, id)));
  if (events_.size() == most_) events_.pop_front();
  events_.push_back({number, out.back()});
  newest_ = number;
  return out;
}

std::optional<std::uint64_t> EventHistory::number_of(std::string_view id) const {
  if (!id.starts_with(life_) || id.size() == life_.size() || id[life_.size()] != '-') return std::nullopt;
  return text::whole_number(id.substr(life_.size() + 1), 1, std::numeric_limits<std::uint64_t>::max());
}

std::vector<Frame> EventHistory::since(std::optional<std::string_view> last_id) const {
  std::vector<Frame> out;
  std::optional<std::uint64_t> seen = last_id ? number_of(*last_id) : std::nullopt;
  // Nobody has seen what has not happened; and of another life all of this one is new.
  if (last_id && (!seen || *seen > newest_)) seen = 0;
  const std::uint64_t first = events_.empty() ? newest_ + 1 : events_.front().number;
  std::uint64_t expected = seen ? *seen + 1 : first;
  for (const Event& event : events_) {
    if (event.number < expected) continue;
    if (event.number > expected)
      out.push_back(std::make_shared<const std::string>(gap_text(event.number - expected)));
    out.push_back(event.frame);
    expected = event.number + 1;
  }
  return out;
}

}  // namespace tally::http
