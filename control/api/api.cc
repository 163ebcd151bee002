#include "api/api.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "api/results.h"
#include "config/diagnostic.h"
#include "config/load_config.h"
#include "config/units.h"
#include "text/text.h"

namespace tally::api {
namespace {

using Answer = tl::expected<Json, Failure>;
using Say = std::function<void(Answer)>;

Answer fails(Failure failure) { return tl::unexpected<Failure>(std::move(failure)); }

Answer job_show(const Snapshot& box, const std::string& name) {
  const JobCounts* const job = find_job(box, name);
  return job == nullptr ? fails(no_such_job(box, name)) : Answer(job_show(box, *job));
}

// Of something that is done to a job which is declared.
template <class Do>
Answer change_job(Box& box, const std::string& name, Do change) {
  const auto before = box.snapshot();
  const JobCounts* const job = find_job(*before, name);
  if (job == nullptr || !job->declared) return fails(no_such_job(*before, name));
  if (const Result<void> done = change(); !done)
    return fails({Code::kNotNow, done.error().text(),
                  Json{{"job", name}, {"phase", members::name_of(job->status.phase)}}});
  return job_show(*box.snapshot(), name);
}

Answer check_config(const std::string& text) {
  const auto read = config::load_config_text(text, "config", ".", config::TokenFiles::kLeave);
  return Json{{"good", read.has_value()},
              {"diagnostics", diagnostics_json(read ? read->warnings : read.error())}};
}

Answer fails_by_file(const config::Diagnostics& diagnostics) {
  return fails({Code::kConfiguration, "the configuration has errors; nothing was changed",
                Json{{"diagnostics", diagnostics_json(diagnostics)}}});
}

Answer reload(Box& box) {
  ReloadReport report = box.reload();
  if (report.refused) return fails_by_file(report.diagnostics);
  return Json{{"changed", std::move(report.changed)},
              {"failed", std::move(report.failed)},
              {"restart", std::move(report.restart)},
              {"diagnostics", diagnostics_json(report.diagnostics)}};
}

Answer restart(Box& box) {
  const ReloadReport report = box.restart();
  if (report.refused) return fails_by_file(report.diagnostics);
  if (!report.failed.empty()) return fails({Code::kNotNow, report.failed.front(), Json::object()});
  return Json{{"notes", report.changed}, {"diagnostics", diagnostics_json(report.diagnostics)}};
}

Answer diff(Box& box) {
  const DiffReport report = box.diff();
  if (std::ranges::find(report.diagnostics, config::Severity::kError, &config::Diagnostic::severity) !=
      report.diagnostics.end())
    return fails_by_file(report.diagnostics);
  Json all = Json::array();
  for (const config::Difference& d : report.differences)
    all.push_back({{"what", d.what}, {"applies", config::applies_text(d.applies)}});
  return Json{{"differences", std::move(all)}, {"diagnostics", diagnostics_json(report.diagnostics)}};
}

// What is said when the change of a job has come to its end. name: of a job that is there then; empty: it is gone.
ChangeDone say_job(Box& box, std::string name, Say say) {
  return [&box, name = std::move(name), say = std::move(say)](tl::expected<JobChange, Failure> done) {
    if (!done) return say(fails(std::move(done.error())));
    Json told = Json::object();
    if (!name.empty()) {
      if (Answer shown = job_show(*box.snapshot(), name); shown) told = std::move(*shown);
    }
    told["notes"] = std::move(done->notes);
    told["diagnostics"] = diagnostics_json(done->warnings);
    say(std::move(told));
  };
}

// The words of the parameter are the levels in their order.
Answer set_log_level(Box& box, const Method& method, const std::string& word) {
  const std::vector<std::string>& words = method.parameters.front().words;
  const auto at = std::find(words.begin(), words.end(), word) - words.begin();
  box.set_log_level(static_cast<config::LogSection::Level>(at));
  return Json{{"level", word}};
}

Answer start_trace(Box& box, const Arguments& given) {
  const auto whole = [&](const char* name) { return static_cast<std::uint32_t>(given.whole(name)); };
  const TraceWish wish{.job = given.text("job"),
                       .port = given.text("port"),
                       .way = given.text("way"),
                       .drop = given.text("drop"),
                       .every = whole("every"),
                       .frames = whole("frames"),
                       .seconds = whole("seconds")};
  if (const auto now = box.snapshot(); !wish.job.empty() && find_job(*now, wish.job) == nullptr)
    return fails(no_such_job(*now, wish.job));
  if (const Result<void> begun = box.start_trace(wish); !begun)
    return fails({Code::kNotNow, begun.error().text(), to_json(box.trace())});
  return to_json(box.trace());
}

Answer show_config(const Snapshot& box) { return Json{{"yaml", config::dump_config(*box.config)}}; }

// "25G", 0, or file.
Answer set_plan_rate(Box& box, const std::string& resource, const std::string& rate) {
  std::optional<double> gbps;
  if (rate != "file") {
    const auto kilobits = config::parse_rate(rate);
    if (rate != "0" && !kilobits)
      return fails({Code::kParameters, "rate: " + kilobits.error().message,
                    Json{{"path", "params.rate"},
                         {"got", config::shown(rate)},
                         {"want", kilobits.error().help +
                                      ", or 0 for what is down, or file for what the file says"}}});
    gbps = rate == "0" ? 0 : static_cast<double>(*kilobits) * 1e-6;
  }
  if (const Result<void> done = box.set_plan_rate(resource, gbps); !done)
    return fails({Code::kNotNow, done.error().what, Json{{"resource", resource}}});
  return Json{{"resource", resource}, {"rate_gbps", gbps ? Json(*gbps) : Json(nullptr)}};
}

// Of one job.
Answer show_plan(const Snapshot& box, const std::string& name, bool every_load) {
  Json shown = plan_of_job(box, name, every_load);
  return shown.is_null() ? fails(no_such_job(box, name)) : Answer(std::move(shown));
}

std::optional<LongAnswer> long_answer(MethodId method, const Arguments& given, Box& box) {
  switch (method) {
    case MethodId::kPlanShow:
      if (given.has("name")) return std::nullopt;
      return LongAnswer::plan_show(box.snapshot(), given.flag("all"));
    case MethodId::kJobList:
      return LongAnswer::job_list(box.snapshot());
    case MethodId::kSlotShow:
      return LongAnswer::slot_show(box.snapshot());
    case MethodId::kDropList:
      return LongAnswer::drop_list(box.snapshot());
    case MethodId::kStats:
      return LongAnswer::stats(box.snapshot());
    default:
      return std::nullopt;
  }
}

// Empty: `say` will be called.
std::optional<Answer> carry_out(const Method& method, const Arguments& given, Box& box,
                                std::string_view version, const Say& say) {
  const IfRevision if_revision = given.whole_if_given("if_revision");
  switch (method.id) {
    case MethodId::kVersion:
      return Json{{"api", kApiVersion}, {"tallyd", version}, {"instance", box.snapshot()->instance}};
    case MethodId::kSchema:
      return schema();
    case MethodId::kHealth:
      return health(*box.snapshot());
    case MethodId::kJobShow:
      return job_show(*box.snapshot(), given.text("name"));
    case MethodId::kJobAdd: {
      const Json& job = given.object("job");
      const auto name = job.find("name");
      box.add_job(job, if_revision,
                  say_job(box, name != job.end() && name->is_string() ? name->get<std::string>() : "", say));
      return std::nullopt;
    }
    case MethodId::kJobSet:
      box.set_job(given.text("name"), given.keys(), if_revision, say_job(box, given.text("name"), say));
      return std::nullopt;
    case MethodId::kJobRemove:
      box.remove_job(given.text("name"), given.flag("abort"), if_revision, say_job(box, "", say));
      return std::nullopt;
    case MethodId::kJobAbort:
      return change_job(box, given.text("name"),
                        [&] { return box.abort(given.text("name"), given.text("reason")); });
    case MethodId::kJobReplan:
      return change_job(box, given.text("name"), [&] { return box.replan(given.text("name")); });
    case MethodId::kPortList:
      return port_list(*box.snapshot());
    case MethodId::kCoreList:
      return core_list(*box.snapshot());
    case MethodId::kConfigShow:
      return show_config(*box.snapshot());
    case MethodId::kConfigCheck:
      return check_config(given.text("text"));
    case MethodId::kConfigDiff:
      return diff(box);
    case MethodId::kConfigReload:
      return reload(box);
    case MethodId::kRestart:
      return restart(box);
    case MethodId::kFleetShow:
      return fleet_show(*box.snapshot());
    case MethodId::kPlanShow:
      return show_plan(*box.snapshot(), given.text("name"), given.flag("all"));
    case MethodId::kPlanRate:
      return set_plan_rate(box, given.text("resource"), given.text("rate"));
    case MethodId::kLogSet:
      return set_log_level(box, method, given.text("level"));
    case MethodId::kDoctor:
      return Json{{"findings", doctor::to_json(box.examine())}};
    case MethodId::kTraceStart:
      return start_trace(box, given);
    case MethodId::kTraceRead:
      return to_json(box.read_trace());
    case MethodId::kTraceStop:
      box.stop_trace();
      return to_json(box.trace());
    case MethodId::kTraceList:
      return to_json(box.trace());
    case MethodId::kSubscribe:
      return Json{{"following", true}};
    case MethodId::kJobList:
    case MethodId::kSlotShow:
    case MethodId::kDropList:
    case MethodId::kStats:
      break;  // long_answer()
  }
  return fails({Code::kInternal, "the method has no function", nullptr});
}

// "job.abort of name 'resnet', reason 'wrong data'"
std::string wish_text(const Method& method, const Arguments& given) {
  std::vector<std::string> words;
  for (const Parameter& p : method.parameters) {
    if (!given.has(p.name)) continue;
    std::string word(p.name);
    if (p.type == Parameter::Type::kWhole) word += " " + std::to_string(given.whole(p.name));
    if (p.type == Parameter::Type::kText || p.type == Parameter::Type::kWord)
      word += " " + config::shown(given.text(p.name));
    if (p.type == Parameter::Type::kObject) word += " " + config::shown(dumped(given.object(p.name)));
    words.push_back(std::move(word));
  }
  for (const auto& [key, value] : given.keys().items())
    words.push_back(key + " " + config::shown(dumped(value)));
  const std::string name(method.name);
  return words.empty() ? name : name + " of " + text::listed(words);
}

// Nothing, to a notification.
std::string line_of(const RequestId& id, Answer answer, const Box& box) {
  if (!id.given) return {};
  if (!answer) return failure_line(id, answer.error());
  (*answer)["revision"] = box.revision();
  return result_line(id, *answer);
}

// Empty: `take` will be called.
std::optional<Reply> reply_to(const Request& request, const Caller& caller, Box& box,
                              std::string_view version, const TakeReply& take) {
  const RequestId& id = request.id;
  const auto refused = [&](Failure why) { return Reply{.text = line_of(id, fails(std::move(why)), box)}; };
  const auto method = find_method(request.method);
  if (!method) return refused(method.error());
  const auto given = read_arguments(**method, request.parameters);
  if (!given) return refused(given.error());
  if ((*method)->restricted && !caller.may_change)
    return refused({Code::kNotPermitted,
                    request.method + " changes the box or costs it time, and you may only read",
                    Json{{"want", caller.whom_to_be}}});
  if (auto no = objection_to(given->whole_if_given("if_revision"), box.revision()))
    return refused(std::move(*no));
  if (changes(**method)) box.note(caller.name + ": " + wish_text(**method, *given));
  if (auto rest = long_answer((*method)->id, *given, box)) {
    if (!id.given) return Reply{};
    return Reply{.text = result_beginning(id), .rest = std::move(rest)};
  }
  const Say say = [&box, id, take](Answer answer) { take({.text = line_of(id, std::move(answer), box)}); };
  auto answer = carry_out(**method, *given, box, version, say);
  if (!answer) return std::nullopt;
  return Reply{.text = line_of(id, std::move(*answer), box), .follow = (*method)->id == MethodId::kSubscribe};
}

}  // namespace

std::optional<Failure> objection_to(IfRevision wanted, std::uint64_t is) {
  if (!wanted || *wanted == is) return std::nullopt;
  return Failure{Code::kRevision,
                 "the box was changed meanwhile: its revision is " + std::to_string(is) + ", not " +
                     std::to_string(*wanted),
                 Json{{"revision", is}, {"want", "look again, and ask with the new revision"}}};
}

Result<void> Box::set_plan_rate(const std::string& /*resource*/, std::optional<double> /*gbps*/) {
  return fail(ErrorCode::kInvalidArgument, "nothing plans here: no planner.cluster is configured");
}

void answer(std::string_view line, const Caller& caller, Box& box, std::string_view version,
            const TakeReply& take) {
  RequestId id;
  bool silent = false;
  std::optional<Reply> reply;
  try {
    const auto request = read_request(line);
    if (request) {
      id = request->id;
      silent = !id.given;
      reply = reply_to(*request, caller, box, version, take);
    } else {
      reply = Reply{.text = failure_line(request.error().id, request.error().failure)};
    }
  } catch (const std::exception& e) {  // of the JSON library, or no memory is left
    reply = Reply{};
    if (!silent)
      reply->text = failure_line(id, {Code::kInternal, std::string("the request failed: ") + e.what(),
                                      Json{{"want", "a report to the makers of tallyd"}}});
  }
  if (reply) take(std::move(*reply));
}

Reply answer(std::string_view line, const Caller& caller, Box& box, std::string_view version) {
  Reply reply;
  answer(line, caller, box, version, [&reply](Reply said) { reply = std::move(said); });
  return reply;
}

}  // namespace tally::api
