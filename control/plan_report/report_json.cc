#include "plan_report/report_json.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tally::plan_report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kKinds{"box", "server", "link", "host link"};

Json or_null(double value) { return value > 0 ? Json(value) : Json(nullptr); }

Json parts_json(const std::vector<Part>& parts) {
  Json out = Json::array();
  for (const Part& one : parts)
    out.push_back({{"name", one.name}, {"groups", one.groups}, {"share", one.share}});
  return out;
}

// Of an object, what is there of the type that is wanted.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  [[nodiscard]] const Json& at(const char* key) const {
    static const Json nothing;
    if (!object_.is_object()) return nothing;
    const auto found = object_.find(key);
    return found == object_.end() ? nothing : *found;
  }
  [[nodiscard]] std::string text(const char* key) const {
    const Json& value = at(key);
    return value.is_string() ? value.get<std::string>() : std::string();
  }
  [[nodiscard]] double number(const char* key) const {
    const Json& value = at(key);
    return value.is_number() ? value.get<double>() : 0;
  }
  template <class Whole>
  [[nodiscard]] Whole whole(const char* key) const {
    const Json& value = at(key);
    return value.is_number_unsigned() ? value.get<Whole>() : Whole{0};
  }
  [[nodiscard]] bool flag(const char* key) const {
    const Json& value = at(key);
    return value.is_boolean() && value.get<bool>();
  }
  // Calls take with a Reader of each element.
  template <class Take>
  void each(const char* key, Take take) const {
    const Json& list = at(key);
    if (!list.is_array()) return;
    for (const Json& one : list) take(Reader(one));
  }

 private:
  const Json& object_;
};

std::vector<Part> parts_of(const Reader& in, const char* key) {
  std::vector<Part> out;
  in.each(key, [&](const Reader& one) {
    out.push_back({one.text("name"), one.whole<std::uint32_t>("groups"), one.number("share")});
  });
  return out;
}

}  // namespace

Json loads_json(const std::vector<Load>& loads) {
  Json out = Json::array();
  for (const Load& one : loads) {
    out.push_back({{"resource", one.name},
                   {"kind", kKinds[static_cast<std::size_t>(one.kind)]},
                   {"load_gbps", one.load},
                   {"all_jobs_gbps", one.all},
                   {"capacity_gbps", one.room},
                   {"lacks_slots", one.lacks_slots}});
  }
  return out;
}

Json to_json(const JobReport& job, bool every_load) {
  Json out{{"name", job.name},
           {"workers", job.workers},
           {"racks", job.racks},
           {"servers", job.parameter_servers},
           {"gradient_bytes", job.gradient > 0 ? Json(job.gradient) : Json(nullptr)},
           {"rate_gbps", job.why_not.empty() ? or_null(job.rate) : Json(nullptr)}};
  if (!job.why_not.empty()) {
    out["error"] = job.why_not;
    return out;
  }
  out["step_seconds"] =
      job.gradient > 0 ? Json(static_cast<double>(job.gradient) * 8e-9 / job.rate) : Json(nullptr);
  out["full"] = job.full.empty() ? Json(nullptr) : Json(job.full);
  out["as_full"] = job.as_full;
  out["lacks_slots"] = job.lacks_slots;
  out["promised_gbps"] = job.promised;
  out["bound_gbps"] = job.bound;
  out["form"] = job.form;
  if (!job.compared.empty()) {
    out["without_gbps"] = Json::object();
    for (const Compared& one : job.compared)
      out["without_gbps"][one.name] = one.rate ? Json(*one.rate) : Json(nullptr);
  }
  if (job.ring > 0) {
    out["ring_gbps"] = job.ring;
    out["ring_is_faster"] = job.ring_is_faster();
  }
  out["box_parts"] = parts_json(job.boxes);
  out["server_parts"] = parts_json(job.servers);
  out["loads"] = loads_json(every_load ? job.loads : fullest_of(job.loads));
  out["more_loads"] = job.more_loads + job.loads.size() - out["loads"].size();
  return out;
}

JobReport report_of(const Json& json) {
  const Reader in(json);
  JobReport out{.name = in.text("name"),
                .workers = in.whole<std::size_t>("workers"),
                .racks = in.whole<std::size_t>("racks"),
                .parameter_servers = in.whole<std::size_t>("servers"),
                .gradient = in.whole<std::uint64_t>("gradient_bytes"),
                .why_not = in.text("error"),
                .rate = in.number("rate_gbps"),
                .promised = in.number("promised_gbps"),
                .bound = in.number("bound_gbps"),
                .form = in.text("form"),
                .full = in.text("full"),
                .as_full = in.whole<std::size_t>("as_full"),
                .lacks_slots = in.flag("lacks_slots"),
                .more_loads = in.whole<std::size_t>("more_loads"),
                .ring = in.number("ring_gbps"),
                .boxes = parts_of(in, "box_parts"),
                .servers = parts_of(in, "server_parts")};
  in.each("loads", [&](const Reader& one) {
    const auto kind = std::ranges::find(kKinds, one.text("kind"));
    out.loads.push_back(
        {.name = one.text("resource"),
         .kind = kind == kKinds.end() ? Kind::kLink : static_cast<Kind>(kind - kKinds.begin()),
         .load = one.number("load_gbps"),
         .all = one.number("all_jobs_gbps"),
         .room = one.number("capacity_gbps"),
         .lacks_slots = one.flag("lacks_slots")});
  });
  if (const Json& without = in.at("without_gbps"); without.is_object()) {
    for (const auto& [name, rate] : without.items())
      out.compared.push_back({name, rate.is_number() ? std::optional(rate.get<double>()) : std::nullopt});
  }
  return out;
}

}  // namespace tally::plan_report
