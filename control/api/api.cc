#include "api/api.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include "api/results.h"
#include "config/diagnostic.h"
#include "config/load_config.h"
#include "text/text.h"

namespace tally::api {
namespace {

using Answer = tl::expected<Json, Failure>;

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

Answer set_job(Box& box, const Arguments& given) {
  const std::uint64_t window = given.whole("window");
  if (!std::has_single_bit(window))
    return fails({Code::kParameters, "window is " + std::to_string(window) + ", which is no power of two",
                  Json{{"path", "params.window"},
                       {"got", window},
                       {"want", "a power of two, such as " + std::to_string(std::bit_floor(window))}}});
  const std::string& name = given.text("name");
  return change_job(box, name, [&] { return box.set_window(name, static_cast<std::uint32_t>(window)); });
}

Answer check_config(const std::string& text) {
  const auto read = config::load_config_text(text, "config", ".", config::TokenFiles::kLeave);
  return Json{{"good", read.has_value()},
              {"diagnostics", diagnostics_json(read ? read->warnings : read.error())}};
}

Answer reload(Box& box) {
  ReloadReport report = box.reload();
  Json diagnostics = diagnostics_json(report.diagnostics);
  if (report.refused)
    return fails({Code::kConfiguration, "the configuration has errors; nothing was changed",
                  Json{{"diagnostics", std::move(diagnostics)}}});
  return Json{{"changed", std::move(report.changed)},
              {"failed", std::move(report.failed)},
              {"restart", std::move(report.restart)},
              {"diagnostics", std::move(diagnostics)}};
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

std::optional<LongAnswer> long_answer(MethodId method, Box& box) {
  switch (method) {
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

Answer carry_out(const Method& method, const Arguments& given, Box& box, std::string_view version) {
  switch (method.id) {
    case MethodId::kVersion:
      return Json{{"api", kApiVersion}, {"tallyd", version}, {"instance", box.snapshot()->instance}};
    case MethodId::kSchema:
      return schema();
    case MethodId::kHealth:
      return health(*box.snapshot());
    case MethodId::kJobShow:
      return job_show(*box.snapshot(), given.text("name"));
    case MethodId::kJobSet:
      return set_job(box, given);
    case MethodId::kJobAbort:
      return change_job(box, given.text("name"),
                        [&] { return box.abort(given.text("name"), given.text("reason")); });
    case MethodId::kPortList:
      return port_list(*box.snapshot());
    case MethodId::kCoreList:
      return core_list(*box.snapshot());
    case MethodId::kConfigShow:
      return show_config(*box.snapshot());
    case MethodId::kConfigCheck:
      return check_config(given.text("text"));
    case MethodId::kConfigReload:
      return reload(box);
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
  const auto word = [&](const Parameter& p) {
    return std::string(p.name) + " " +
           (p.type == Parameter::Type::kWhole ? std::to_string(given.whole(p.name))
                                              : config::shown(given.text(p.name)));
  };
  const std::string name(method.name);
  return method.parameters.empty() ? name : name + " of " + text::listed(method.parameters, ", ", word);
}

tl::expected<Reply, Failure> reply_to(const Request& request, const Caller& caller, Box& box,
                                      std::string_view version) {
  const auto method = find_method(request.method);
  if (!method) return tl::unexpected<Failure>(method.error());
  const auto given = read_arguments(**method, request.parameters);
  if (!given) return tl::unexpected<Failure>(given.error());
  if ((*method)->restricted && !caller.may_change)
    return tl::unexpected<Failure>(Failure{
        Code::kNotPermitted, request.method + " changes the box or costs it time, and you may only read",
        Json{{"want", caller.whom_to_be}}});
  if (changes(**method)) box.note(caller.name + ": " + wish_text(**method, *given));
  const MethodId id = (*method)->id;
  if (!request.id.given) {  // it is carried out, and not answered
    (void)carry_out(**method, *given, box, version);
    return Reply{.follow = id == MethodId::kSubscribe};
  }
  if (auto rest = long_answer(id, box))
    return Reply{.text = result_beginning(request.id), .rest = std::move(rest)};
  const Answer result = carry_out(**method, *given, box, version);
  if (!result) return tl::unexpected<Failure>(result.error());
  return Reply{.text = result_line(request.id, *result), .follow = id == MethodId::kSubscribe};
}

}  // namespace

Reply answer(std::string_view line, const Caller& caller, Box& box, std::string_view version) {
  RequestId id;
  bool silent = false;
  try {
    const auto request = read_request(line);
    if (!request) return {.text = failure_line(request.error().id, request.error().failure)};
    id = request->id;
    silent = !id.given;
    auto reply = reply_to(*request, caller, box, version);
    if (reply) return std::move(*reply);
    return silent ? Reply{} : Reply{.text = failure_line(id, reply.error())};
  } catch (const std::exception& e) {  // of the JSON library, or no memory is left
    if (silent) return {};
    return {.text = failure_line(id, {Code::kInternal, std::string("the request failed: ") + e.what(),
                                      Json{{"want", "a report to the makers of tallyd"}}})};
  }
}

}  // namespace tally::api
