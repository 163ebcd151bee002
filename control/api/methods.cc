#include "api/methods.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "config/diagnostic.h"
#include "config/value_types.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally::api {
namespace {

using Type = Parameter::Type;

Parameter job_name() { return {"name", Type::kText, 1, kMaxNameBytes, {}, "the job's name"}; }

// Of `jobs[]`, but for those by which a job is known.
std::vector<std::string> keys_of_jobs() {
  const std::string_view above = "jobs[].";
  std::vector<std::string> keys;
  for (const config::ReferenceRow& row : config::reference_rows()) {
    if (!row.path.starts_with(above)) continue;
    std::string key = row.path.substr(above.size());
    key.resize(std::min(key.find_first_of(".["), key.size()));
    if (key == "name" || key == "dialect") continue;
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(std::move(key));
  }
  return keys;
}

std::vector<Method> all_methods() {
  return {
      {MethodId::kVersion, "api.version", false, "The versions of the interface and of tallyd", {}},
      {MethodId::kSchema, "api.schema", false, "This table: every method with its parameters", {}},
      {MethodId::kHealth,
       "health.get",
       false,
       "Whether the box is well, and what is not; `ending`: a drain or a shutdown is under way",
       {}},
      {MethodId::kJobList, "job.list", false, "Every job: its phase, who is there, what it has done", {}},
      {MethodId::kJobShow,
       "job.show",
       false,
       "One job with all its ranks: who is late, since when, where it sits",
       {job_name()}},
      {MethodId::kJobAdd,
       "job.add",
       true,
       "Declares a job: an entry of `jobs:` of the configuration, as JSON. It is kept where control.state "
       "says",
       {{"job", Type::kObject, 0, 0, {}, "as in `jobs:`"}}},
      {MethodId::kJobSet,
       "job.set",
       true,
       "Other values for keys of a job. Of one of the file until the next reload or start, of one of job.add "
       "for good",
       {job_name()},
       keys_of_jobs()},
      {MethodId::kJobRemove,
       "job.remove",
       true,
       "Takes back a job of job.add",
       {job_name(), {"abort", Type::kFlag, 0, 0, {}, "also if somebody is in it", false}}},
      {MethodId::kJobAbort,
       "job.abort",
       true,
       "Ends what a job does at the moment; its workers are told the reason and may come back",
       {job_name(), {"reason", Type::kText, 1, kMaxTextBytes, {}, "what the workers are told"}}},
      {MethodId::kJobReplan,
       "job.replan",
       true,
       "Another plan for a job over several boxes, at its home: boxes that were lost are in it again, and "
       "what has "
       "been begun goes on",
       {job_name()}},
      {MethodId::kPortList, "port.list", false, "Every port: its link and what it counts", {}},
      {MethodId::kCoreList, "core.list", false, "Every data core: how busy it is and what it counts", {}},
      {MethodId::kSlotShow, "slot.show", false, "Slot memory: who holds how much of it", {}},
      {MethodId::kDropList, "drop.list", false, "What was dropped, why, and what to do about it", {}},
      {MethodId::kFleetShow,
       "fleet.show",
       false,
       "The fleet of the box: who is in it, who plans, and whether etcd answers",
       {}},
      {MethodId::kPlanShow,
       "plan.show",
       false,
       "What the planner has made of the jobs over several boxes, and why: rates, what is full, loads, what "
       "others "
       "would do; without a name also the cluster with its loads",
       {{"name", Type::kText, 1, kMaxNameBytes, {}, "this job alone", false},
        {"all", Type::kFlag, 0, 0, {}, "every load, not only the fullest of each job", false}}},
      {MethodId::kPlanRate,
       "plan.rate",
       true,
       "What a link, a box or a server of the cluster has from now on, until its file is read again; plans "
       "follow",
       {{"resource", Type::kText, 1, 256, {}, "as plan.show names it: 'link rack1 to spine2', 'box rack3'"},
        {"rate", Type::kText, 1, 64, {}, "as in the file, 25G; 0: it is down; file: what its file says"}}},
      {MethodId::kStats, "stats.get", false, "All counters of the box in one answer", {}},
      {MethodId::kConfigShow, "config.show", false, "The configuration in force, with all defaults", {}},
      {MethodId::kConfigCheck,
       "config.check",
       true,  // up to a tenth of a second of the control thread
       "What is wrong with a configuration; nothing is changed, and no token file is looked at",
       {{"text", Type::kText, 0, kMaxRequestBytes, {}, "YAML"}}},
      {MethodId::kConfigDiff,
       "config.diff",
       true,  // as config.check
       "What a reload would change, and when it takes effect",
       {}},
      {MethodId::kConfigReload, "config.reload", true, "Reads the file again, as SIGHUP does", {}},
      {MethodId::kRestart,
       "daemon.restart",
       true,
       "tallyd begins anew, from its program and its file as they are on disk by now. No job ends: workers "
       "come back by themselves",
       {}},
      {MethodId::kLogSet,
       "log.set",
       true,
       "The least important messages to be printed, until the next reload or start",
       {{"level", Type::kWord, 0, 0, {"trace", "debug", "info", "warning", "error"}, "of log.level"}}},
      {MethodId::kDoctor,
       "doctor.run",
       true,  // some milliseconds
       "What is wrong with the machine for this box, why it matters, and the command that mends it",
       {}},
      {MethodId::kTraceStart,
       "trace.start",
       true,
       "A sample of frames, with what became of them, until one of the limits; one trace at a time",
       {{"job", Type::kText, 0, kMaxNameBytes, {}, "only its frames; empty: of any"},
        {"port", Type::kText, 0, 64, {}, "only frames of this port; empty: of any"},
        {"way", Type::kWord, 0, 0, {"both", "in", "out"}, "frames that come, or that leave"},
        {"drop",
         Type::kText,
         0,
         64,
         {},
         "only frames dropped for this reason, or for any; empty: others too"},
        {"every", Type::kWhole, 1, 1'000'000, {}, "of the frames that fit, one of so many"},
        {"frames", Type::kWhole, 1, 1'000'000, {}, "after which it ends"},
        {"seconds", Type::kWhole, 1, 3'600, {}, "after which it ends"}}},
      {MethodId::kTraceRead,
       "trace.read",
       true,
       "The next frames of the trace, at most 64; it ends when nobody reads for 10 s",
       {}},
      {MethodId::kTraceStop, "trace.stop", true, "Ends the trace; what it has can still be read", {}},
      {MethodId::kTraceList, "trace.list", false, "The trace that runs, or the last one", {}},
      {MethodId::kSubscribe, "event.subscribe", false, "From now on what happens, a notification each", {}},
  };
}

std::vector<Method> make_methods() {
  std::vector<Method> all = all_methods();
  for (Method& method : all) {
    if (!changes(method)) continue;
    method.parameters.push_back(
        {"if_revision", Type::kWhole, 0, UINT64_MAX, {}, "change nothing if the box's is another", false});
  }
  return all;
}

// What stands there, for a message; never long.
std::string seen(const Json& value) {
  if (value.is_string()) return config::shown(value.get_ref<const std::string&>());
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return dumped(value);
}

Failure wrong(const Parameter& parameter, std::string message, Json got) {
  return {Code::kParameters, std::move(message),
          Json{{"path", "params." + std::string(parameter.name)},
               {"got", std::move(got)},
               {"want", form_of(parameter)}}};
}

bool fits(const Parameter& p, const Json& value) {
  switch (p.type) {
    case Type::kWhole:
      // A number with a point is a float for the parser, one below 0 or from 2^64 on is not unsigned.
      return value.is_number_unsigned() && value.get<std::uint64_t>() >= p.low &&
             value.get<std::uint64_t>() <= p.high;
    case Type::kText:
      return value.is_string() && value.get_ref<const std::string&>().size() >= p.low &&
             value.get_ref<const std::string&>().size() <= p.high;
    case Type::kWord:
      return value.is_string() &&
             std::find(p.words.begin(), p.words.end(), value.get_ref<const std::string&>()) != p.words.end();
    case Type::kFlag:
      return value.is_boolean();
    case Type::kObject:
      return value.is_object();
  }
  return false;
}

std::string type_name(Type type) {
  switch (type) {
    case Type::kWhole:
      return "integer";
    case Type::kFlag:
      return "boolean";
    case Type::kObject:
      return "object";
    case Type::kText:
    case Type::kWord:
      break;
  }
  return "string";
}

}  // namespace

std::span<const Method> methods() {
  static const std::vector<Method> all = make_methods();
  return all;
}

std::string form_of(const Parameter& p) {
  switch (p.type) {
    case Type::kWhole:
      if (p.high == UINT64_MAX) return "a whole number";
      return "a whole number from " + std::to_string(p.low) + " to " + std::to_string(p.high);
    case Type::kText:
      return "a text of " + std::to_string(p.low) + " to " + std::to_string(p.high) + " bytes";
    case Type::kWord:
      return "one of " + text::listed(p.words);
    case Type::kFlag:
      return "true or false";
    case Type::kObject:
      return "an object";
  }
  return {};
}

tl::expected<Arguments, Failure> read_arguments(const Method& method, const Json& given) {
  Arguments out;
  if (given.is_array() && !given.empty())
    return tl::unexpected<Failure>(
        Failure{Code::kParameters, "params is a list: parameters have names here",
                Json{{"path", "params"}, {"want", "an object such as {\"name\": \"resnet\"}"}}});
  std::vector<std::string> names;
  for (const Parameter& p : method.parameters) names.emplace_back(p.name);
  names.insert(names.end(), method.keys.begin(), method.keys.end());
  for (const auto& [name, value] : given.items()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    Json data{{"path", "params"},
              {"got", config::shown(name)},
              {"want", names.empty() ? "no parameters" : text::listed(names)}};
    if (const std::string near = config::nearest(name, names); !near.empty()) data["nearest"] = near;
    return tl::unexpected<Failure>(
        Failure{Code::kParameters, std::string(method.name) + " has no parameter " + config::shown(name),
                std::move(data)});
  }
  for (const Parameter& p : method.parameters) {
    const auto value = given.find(p.name);
    if (value == given.end() && !p.required) continue;
    if (value == given.end())
      return tl::unexpected<Failure>(
          wrong(p, "the parameter " + std::string(p.name) + " is missing", nullptr));
    if (!fits(p, *value))
      return tl::unexpected<Failure>(
          wrong(p, std::string(p.name) + " is " + seen(*value) + ", want " + form_of(p), seen(*value)));
    if (p.type == Type::kWhole) {
      out.wholes_.emplace(p.name, value->get<std::uint64_t>());
    } else if (p.type == Type::kObject) {
      out.objects_.emplace(p.name, *value);
    } else if (p.type == Type::kFlag) {
      if (value->get<bool>()) out.flags_.emplace(p.name);
    } else {
      out.texts_.emplace(p.name, value->get<std::string>());
    }
  }
  for (const auto& [name, value] : given.items()) {
    if (std::find(method.keys.begin(), method.keys.end(), name) != method.keys.end()) out.keys_[name] = value;
  }
  if (!method.keys.empty() && out.keys_.empty())
    return tl::unexpected<Failure>(Failure{Code::kParameters, "no key is given that is to change",
                                           Json{{"path", "params"}, {"want", text::listed(method.keys)}}});
  return out;
}

tl::expected<const Method*, Failure> find_method(std::string_view name) {
  std::vector<std::string> names;
  for (const Method& method : methods()) {
    if (method.name == name) return &method;
    names.emplace_back(method.name);
  }
  Failure failure{Code::kMethod, "there is no method " + config::shown(name),
                  Json{{"want", "a name that api.schema lists"}}};
  if (const std::string near = config::nearest(name, names); !near.empty()) {
    failure.message += "; did you mean " + near + "?";
    failure.data["nearest"] = near;
  }
  return tl::unexpected<Failure>(std::move(failure));
}

Json schema() {
  Json all = Json::array();
  for (const Method& method : methods()) {
    Json parameters = Json::array();
    for (const Parameter& p : method.parameters) {
      Json one{{"name", p.name},
               {"type", type_name(p.type)},
               {"required", p.required},
               {"form", form_of(p)},
               {"help", p.help}};
      if (p.type == Type::kWord) {
        one["words"] = p.words;
      } else if (p.type == Type::kWhole || p.type == Type::kText) {
        one[p.type == Type::kWhole ? "minimum" : "least_bytes"] = p.low;
        one[p.type == Type::kWhole ? "maximum" : "most_bytes"] = p.high;
      }
      parameters.push_back(std::move(one));
    }
    all.push_back({{"name", method.name},
                   {"restricted", method.restricted},
                   {"help", method.help},
                   {"parameters", std::move(parameters)},
                   {"keys", method.keys}});
  }
  return Json{{"methods", std::move(all)}};
}

std::string schema_markdown() {
  std::string out = "| method | parameters | restricted | what it does |\n|---|---|---|---|\n";
  for (const Method& method : methods()) {
    const auto word = [](const Parameter& p) {
      return std::string("`")
          .append(p.name)
          .append("`: ")
          .append(form_of(p))
          .append(p.required ? "" : ", or left out");
    };
    // That every change takes it, the text says.
    std::vector<Parameter> shown = method.parameters;
    std::erase_if(shown, [](const Parameter& p) { return p.name == "if_revision"; });
    out.append("| `").append(method.name).append("` | ").append(text::listed(shown, "; ", word));
    if (!method.keys.empty()) out.append("; keys of [`jobs[]`](configuration.md), but name and dialect");
    out.append(method.restricted ? " | yes | " : " |  | ").append(method.help).append(" |\n");
  }
  return out;
}

}  // namespace tally::api
