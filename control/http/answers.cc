#include "http/answers.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "api/long_answer.h"
#include "api/results.h"
#include "config/diagnostic.h"
#include "config/load_config.h"
#include "http/event_history.h"
#include "members/texts.h"
#include "text/text.h"

namespace tally::http {
namespace {

using api::Json;

constexpr std::array<Path, kPathCount> kPaths{{
    {PathId::kPage, "/", false, "the live page, for browsers"},
    {PathId::kHealthz, "/healthz", false, "200 while the process lives"},
    {PathId::kReadyz, "/readyz", true,
     "200 while cores turn, ports are up and nothing ends; else 503, and why"},
    {PathId::kMetrics, "/metrics", true, "for Prometheus"},
    {PathId::kEvents, "/events", true, "text/event-stream: the box about once a second, and what happens"},
    {PathId::kBox, "/api/v1/box", true, "all of the next six, of one moment, and whether anybody plans"},
    {PathId::kJobs, "/api/v1/jobs", true, "as job.list of the control interface"},
    {PathId::kPorts, "/api/v1/ports", true, "as port.list"},
    {PathId::kCores, "/api/v1/cores", true, "as core.list"},
    {PathId::kDrops, "/api/v1/drops", true, "as drop.list"},
    {PathId::kSlots, "/api/v1/slots", true, "as slot.show"},
    {PathId::kHealth, "/api/v1/health", true, "as health.get"},
    {PathId::kConfig, "/api/v1/config", true, "as config.show"},
    {PathId::kFleet, "/api/v1/fleet", true, "as fleet.show"},
    {PathId::kPlan, "/api/v1/plan", true, "as plan.show"},
}};

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

std::string with_revision(Json result, const api::Snapshot& box) {
  result["revision"] = box.revision;
  return api::dumped(result);
}

std::string config_text(const api::Snapshot& box) {
  return with_revision(Json{{"yaml", config::dump_config(*box.config)}}, box);
}

Answer readiness(const api::Snapshot& box) {
  const Json problems = api::box_problems(box);
  if (problems.empty()) return {200, kPlain, "ready\n"};
  std::string text;
  for (const Json& problem : problems)
    text.append(problem["what"].get<std::string>())
        .append(" ")
        .append(problem["name"].get<std::string>())
        .append(": ")
        .append(problem["text"].get<std::string>())
        .append("\n");
  return {503, kPlain, std::move(text)};
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

// The name in front of a port, without the brackets of IPv6; empty: it is written as no Host is.
std::string_view name_in(std::string_view host) {
  std::string_view name = host, rest;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    name = host.substr(1, end - 1);
    rest = host.substr(end + 1);
  } else if (const std::size_t colon = host.find(':'); colon != std::string_view::npos) {
    name = host.substr(0, colon);
    rest = host.substr(colon);
  }
  // Any port: the one of a tunnel (ssh -L) is another than ours.
  if (!rest.empty() && (rest.front() != ':' || !text::whole_number(rest.substr(1), 1, 65'535))) return {};
  return name;
}

}  // namespace

std::span<const Path> paths() { return kPaths; }

const Path* find_path(std::string_view path) {
  const auto found = std::ranges::find(kPaths, path, &Path::path);
  return found == kPaths.end() ? nullptr : &*found;
}

Answer answer_to(PathId path, const Published* of, const Own& own) {
  switch (path) {
    case PathId::kPage:
      return {200, kHtml, std::string(page())};
    case PathId::kHealthz:
      return {200, kPlain, "alive\n"};
    case PathId::kReadyz:
      return readiness(*of->box);
    case PathId::kMetrics:
      return {200, kMetricsType, metrics_text(*of->box, own.version, own.counts)};
    case PathId::kBox:
      return {200, kJsonType, box_text(*of, own)};
    case PathId::kJobs:
      return {200, kJsonType, api::LongAnswer::job_list(of->box).all()};
    case PathId::kPorts:
      return {200, kJsonType, with_revision(api::port_list(*of->box), *of->box)};
    case PathId::kCores:
      return {200, kJsonType, with_revision(api::core_list(*of->box), *of->box)};
    case PathId::kDrops:
      return {200, kJsonType, api::LongAnswer::drop_list(of->box).all()};
    case PathId::kSlots:
      return {200, kJsonType, api::LongAnswer::slot_show(of->box).all()};
    case PathId::kHealth:
      return {200, kJsonType, with_revision(api::health(*of->box), *of->box)};
    case PathId::kConfig:
      return {200, kJsonType, config_text(*of->box)};
    case PathId::kFleet:
      return {200, kJsonType, with_revision(api::fleet_show(*of->box), *of->box)};
    case PathId::kPlan:
      return {200, kJsonType, api::LongAnswer::plan_show(of->box, false).all()};
    case PathId::kEvents:
    case PathId::kCount:
      break;
  }
  return {500, kPlain, "this path has no function: a defect of tallyd\n"};
}

std::string box_text(const Published& of, const Own& own) {
  const api::Snapshot& box = *of.box;
  std::string text = api::dumped({{"snapshot", of.number},
                                  {"time_ms", box.unix_ns / kMillisecond},
                                  {"instance", box.instance},
                                  {"version", own.version},
                                  {"revision", box.revision}});
  text.pop_back();
  const auto add = [&](const char* key, const std::string& value) {
    text.append(",\"").append(key).append("\":").append(value);
  };
  add("jobs", api::LongAnswer::job_list(of.box).all());
  add("ports", with_revision(api::port_list(box), box));
  add("cores", with_revision(api::core_list(box), box));
  add("drops", api::LongAnswer::drop_list(of.box).all());
  add("slots", api::LongAnswer::slot_show(of.box).all());
  add("health", with_revision(api::health(box), box));
  add("plan", api::dumped(api::plan_head(box)));
  return text.append("}");
}

std::string hello_text(const Own& own) {
  return frame_text("hello", api::dumped({{"instance", own.instance}, {"version", own.version}}));
}

std::string no_such_path_text() {
  std::string text = "there is nothing here; there is\n";
  for (const Path& path : kPaths) {
    text.append("  ").append(path.path).append(std::string(18 - path.path.size(), ' '));
    text.append(path.help).append("\n");
  }
  return text;
}

std::string objection_to_host(std::optional<std::string_view> host, std::string_view local) {
  if (local.empty() && (!host || host->empty())) return {};
  if (!host) return "the request has no Host; write localhost, or the IP address of this box\n";
  const std::string_view name = name_in(*host);
  if (same_letters(name, "localhost")) return {};
  const auto address = text::ip_address(name);
  const auto ours = text::ip_address(local);
  if (address && ours && *address == *ours) return {};
  return "Host is " + config::shown(text::cleaned(host->substr(0, 200))) + ", and this answers to localhost" +
         (local.empty() ? std::string() : " and " + std::string(local)) +
         " alone: a page of somebody else could have a name of its own point here, and read with your "
         "browser. Ask "
         "with the address\n";
}

}  // namespace tally::http
