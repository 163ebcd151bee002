#include "api/long_answer.h"

#include <utility>

#include "api/results.h"

namespace tally::api {
namespace {

// A piece ends behind the row with which it has so many rows or bytes: some 200 us. Jobs with many ranks are long rows.
constexpr std::size_t kRows = 16;
constexpr std::size_t kBytes = 8'192;

// An object without its end, to which members are added.
std::string opened(const Json& object) {
  std::string text = dumped(object);
  text.pop_back();
  if (!object.empty()) text += ',';
  return text;
}

}  // namespace

void LongAnswer::list(const Json& head, const char* key, std::size_t rows, AddRow add) {
  parts_.push_back({opened(head) + "\"" + key + "\":[", rows, add});
}

void LongAnswer::close(const std::string& open) {
  text(open + ",\"revision\":" + std::to_string(box_->revision) + "}");
}

LongAnswer LongAnswer::job_list(std::shared_ptr<const Snapshot> box) {
  LongAnswer out(std::move(box));
  out.list(Json::object(), "jobs", out.box_->jobs.size(), add_job);
  out.close("]");
  return out;
}

LongAnswer LongAnswer::slot_show(std::shared_ptr<const Snapshot> box) {
  LongAnswer out(std::move(box));
  out.list(slot_totals(*out.box_), "jobs", out.box_->jobs.size(), add_slot_holder);
  out.close("]");
  return out;
}

LongAnswer LongAnswer::drop_list(std::shared_ptr<const Snapshot> box) {
  LongAnswer out(std::move(box));
  out.list(Json::object(), "drops", out.box_->jobs.size() + 1, add_drops);
  out.close("]");
  return out;
}

LongAnswer LongAnswer::plan_show(std::shared_ptr<const Snapshot> box, bool every_load) {
  LongAnswer out(std::move(box));
  static const PlanTopology nothing;
  const PlanTopology& cluster = out.box_->plans ? out.box_->plans->topology : nothing;
  const auto more = [&](const char* key, std::size_t rows, AddRow add) {
    out.parts_.push_back({std::string("],\"") + key + "\":[", rows, add});
  };
  out.list(plan_head(*out.box_), "jobs", plan_jobs(*out.box_),
           every_load ? add_plan_job_with_loads : add_plan_job);
  more("switches", cluster.switches.size(), add_plan_switch);
  more("links", cluster.links.size(), add_plan_link);
  more("boxes", cluster.boxes.size(), add_plan_box);
  more("servers", cluster.servers.size(), add_plan_server);
  out.close("]");
  return out;
}

LongAnswer LongAnswer::stats(std::shared_ptr<const Snapshot> box) {
  LongAnswer out(std::move(box));
  const std::size_t jobs = out.box_->jobs.size();
  out.list(totals(*out.box_), "jobs", jobs, add_job);
  out.parts_.push_back({"],\"drops\":[", jobs + 1, add_drops});
  out.text("],\"slots\":");
  out.list(slot_totals(*out.box_), "jobs", jobs, add_slot_holder);
  out.close("]}");
  return out;
}

std::string LongAnswer::next() {
  std::string out;
  for (std::size_t made = 0; part_ < parts_.size(); ++part_, row_ = 0, begun_ = any_ = false) {
    const Part& part = parts_[part_];
    if (!std::exchange(begun_, true)) out += part.before;
    for (; row_ < part.rows; ++row_, ++made) {
      if ((made >= kRows || out.size() >= kBytes) && !out.empty())
        return out;  // rows that add nothing cost nothing, and are no piece
      Json rows = Json::array();
      part.add(*box_, row_, rows);
      for (const Json& row : rows) {
        if (std::exchange(any_, true)) out += ',';
        out += dumped(row);
      }
    }
  }
  return out;
}

std::string LongAnswer::all() {
  std::string out;
  for (std::string piece = next(); !piece.empty(); piece = next()) out += piece;
  return out;
}

}  // namespace tally::api
