#include "switchml/box_link.h"

#include <chrono>
#include <utility>

#include "text/text.h"

namespace tally::switchml_service {
namespace {

using client::Fault;
using client::Json;
using client::Trouble;
using session_service::BoxReport;
using session_service::BoxTrouble;

// It answers in milliseconds; what takes longer hangs, and is away.
constexpr std::chrono::milliseconds kPatience{2'000};

constexpr int kTooManyClients = -32002;
constexpr int kNoSuchJob = -32010;
constexpr int kExists = -32011;
constexpr int kNotNow = -32013;

std::string text_at(const Json& object, const char* key) {
  const auto value = object.is_object() ? object.find(key) : object.end();
  return value != object.end() && value->is_string() ? value->get<std::string>() : std::string();
}

// The first error of the job: where, what, and what to do.
BoxTrouble unfit(const Trouble& trouble) {
  BoxTrouble out{BoxTrouble::Kind::kUnfit, trouble.text};
  if (!trouble.data.is_object() || !trouble.data.contains("diagnostics")) return out;
  for (const Json& d : trouble.data["diagnostics"]) {
    if (text_at(d, "severity") != "error") continue;
    const std::string path = text_at(d, "path");
    out.text = text::cleaned(text_at(d, "message") + "; " + text_at(d, "help"));
    // Of the keys of a session only its slots can be too many for the box.
    if (path == "/slots")
      out.kind = BoxTrouble::Kind::kNoRoom;
    else if (!path.empty())
      out.text = text::cleaned(path) + ": " + out.text;
    break;
  }
  return out;
}

BoxTrouble trouble_of(const Trouble& t) {
  if (t.fault == Fault::kErrors) return unfit(t);
  if (t.fault == Fault::kNotPermitted) return {BoxTrouble::Kind::kNotPermitted, t.text};
  if (t.fault == Fault::kUnreachable || t.fault == Fault::kUsage || t.code == kTooManyClients)
    return {BoxTrouble::Kind::kAway, t.text};
  if (t.code == kNoSuchJob) return {BoxTrouble::Kind::kUnknown, t.text};
  if (t.code == kExists) return {BoxTrouble::Kind::kExists, t.text};
  // Its next life takes it.
  if (t.code == kNotNow && t.text.find("shutting down") != std::string::npos)
    return {BoxTrouble::Kind::kAway, t.text};
  return {BoxTrouble::Kind::kRefused, t.text};
}

tl::unexpected<Trouble> not_understood(const std::string& what) {
  return tl::unexpected<Trouble>(Trouble{
      Fault::kUnreachable, what + " of the tallyd there is not understood: is it of another version?"});
}

}  // namespace

BoxLink::BoxLink(std::string socket, std::string prefix, std::function<void()> wake)
    : socket_(std::move(socket)),
      prefix_(std::move(prefix)),
      wake_(std::move(wake)),
      thread_([this] { run(); }) {}

BoxLink::~BoxLink() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  more_.notify_one();
  thread_.join();
}

void BoxLink::order(session_service::Order order) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back(std::move(order));
  }
  more_.notify_one();
}

std::vector<BoxLink::Said> BoxLink::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(said_, {});
}

void BoxLink::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [this] { return ends_ || !orders_.empty(); });
    if (ends_) return;
    const session_service::Order next = std::move(orders_.front());
    orders_.erase(orders_.begin());
    lock.unlock();
    Said said = carry_out(next);
    lock.lock();
    said_.push_back(std::move(said));
    wake_();
  }
}

BoxLink::Said BoxLink::carry_out(const session_service::Order& order) {
  if (std::holds_alternative<session_service::Look>(order)) {
    auto report = look();
    if (report) return Report(std::move(*report));
    return Report(tl::unexpected<BoxTrouble>(trouble_of(report.error())));
  }
  const auto* const add = std::get_if<session_service::Add>(&order);
  const auto* const remove = std::get_if<session_service::Remove>(&order);
  Done done{add != nullptr, add != nullptr ? add->name : remove->name};
  const auto answer = add != nullptr ? ask("job.add", {{"job", add->job}})
                                     : ask("job.remove", {{"name", remove->name}, {"abort", true}});
  if (!answer) done.result = tl::unexpected<BoxTrouble>(trouble_of(answer.error()));
  return done;
}

BoxLink::Answer<Json> BoxLink::ask(const std::string& method, const Json& parameters) {
  if (!connection_) {
    const auto path = client::find_socket(socket_, "");
    if (!path) return tl::unexpected<Trouble>(path.error());
    auto opened = client::Connection::open(*path, kPatience);
    if (!opened) return tl::unexpected<Trouble>(std::move(opened.error()));
    connection_.emplace(std::move(*opened));
    addresses_.reset();
    anew_ = true;
  }
  auto answer = connection_->call(method, parameters);
  if (!answer && (answer.error().fault == Fault::kUnreachable || answer.error().code == kTooManyClients))
    connection_.reset();
  return answer;
}

BoxLink::Answer<BoxReport> BoxLink::look() {
  BoxReport report;
  const auto health = ask("health.get", Json::object());
  if (!health) return tl::unexpected<Trouble>(health.error());
  const auto ending = health->find("ending");
  report.ending = ending != health->end() && ending->is_boolean() && ending->get<bool>();
  if (!addresses_) {
    const auto shown = ask("config.show", Json::object());
    if (!shown) return tl::unexpected<Trouble>(shown.error());
    addresses_ = session_service::addresses_of(text_at(*shown, "yaml"));
    if (!addresses_) return not_understood("the configuration");
  }
  report.box = *addresses_;
  const auto list = ask("job.list", Json::object());
  if (!list) return tl::unexpected<Trouble>(list.error());
  const auto jobs = list->find("jobs");
  if (jobs == list->end() || !jobs->is_array()) return not_understood("the list of jobs");
  for (const Json& job : *jobs) {
    const std::string name = text_at(job, "name");
    if (!name.starts_with(prefix_) || text_at(job, "dialect") != "switchml" ||
        text_at(job, "phase") == "gone")
      continue;
    const auto shown = ask("job.show", {{"name", name}});
    if (!shown && shown.error().code == kNoSuchJob) continue;
    if (!shown) return tl::unexpected<Trouble>(shown.error());
    if (auto session = session_service::session_of(*shown)) report.sessions.push_back(std::move(*session));
  }
  report.anew = std::exchange(anew_, false);
  return report;
}

}  // namespace tally::switchml_service
