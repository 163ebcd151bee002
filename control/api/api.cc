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

Answer show_config(const Snapshot& box) { return Json{{"yaml", config::dump_config(*box.config)}}; }

Answer carry_out(const Method& method, const Arguments& given, Box& box, std::string_view version) {
  switch (method.id) {
    case MethodId::kVersion:
      return Json{{"api", kApiVersion}, {"tallyd", version}, {"instance", box.snapshot()->instance}};
    case MethodId::kSchema:
      return schema();
    case MethodId::kHealth:
      return health(*box.snapshot());
    case MethodId::kJobList:
      return job_list(*box.snapshot());
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
    case MethodId::kSlotShow:
      return slot_show(*box.snapshot());
    case MethodId::kDropList:
      return drop_list(*box.snapshot());
    case MethodId::kStats:
      return stats(*box.snapshot());
    case MethodId::kConfigShow:
      return show_config(*box.snapshot());
    case MethodId::kConfigCheck:
      return check_config(given.text("text"));
    case MethodId::kConfigReload:
      return reload(box);
    case MethodId::kLogSet:
      return set_log_level(box, method, given.text("level"));
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

Answer answer_of(const Request& request, const Caller& caller, Box& box, std::string_view version) {
  const auto method = find_method(request.method);
  if (!method) return fails(method.error());
  const auto given = read_arguments(**method, request.parameters);
  if (!given) return fails(given.error());
  if ((*method)->restricted && !caller.may_change)
    return fails({Code::kNotPermitted,
                  request.method + " changes the box or costs it time, and you may only read",
                  Json{{"want", caller.whom_to_be}}});
  if (changes(**method)) box.note(caller.name + ": " + wish_text(**method, *given));
  return carry_out(**method, *given, box, version);
}

}  // namespace

std::string answer(std::string_view line, const Caller& caller, Box& box, std::string_view version) {
  RequestId id;
  bool silent = false;
  try {
    const auto request = read_request(line);
    if (!request) return failure_line(request.error().id, request.error().failure);
    id = request->id;
    silent = !id.given;
    const Answer result = answer_of(*request, caller, box, version);
    if (silent) return {};
    return result ? result_line(id, *result) : failure_line(id, result.error());
  } catch (const std::exception& e) {  // of the JSON library, or no memory is left
    if (silent) return {};
    return failure_line(id, {Code::kInternal, std::string("the request failed: ") + e.what(),
                             Json{{"want", "a report to the makers of tallyd"}}});
  }
}

}  // namespace tally::api
