// Any bytes as lines of the control interface. Each is answered by one line of JSON with the id that it
// gave, or by none if it is a notification; only a good request of a method that changes something, of a
// caller who may, changes anything; no byte of the input reaches an answer raw.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/api.h"
#include "api/job_json.h"
#include "config/load_config.h"
#include "config/one_job.h"
#include "tally/check.h"

namespace tally {
namespace {

class CountedBox final : public api::Box {
 public:
  CountedBox() {
    api::Snapshot made;
    made.config = std::make_shared<const config::Config>();
    made.instance = "fuzz";
    made.jobs.resize(1);
    made.jobs[0].status.name = "job";
    made.jobs[0].status.ranks.resize(2);
    made.cores.resize(1);
    made.ports.resize(1);
    now_ = std::make_shared<const api::Snapshot>(std::move(made));
  }
  std::shared_ptr<const api::Snapshot> snapshot() override { return now_; }
  api::ReloadReport reload() override { return count(), api::ReloadReport{}; }
  std::uint64_t revision() const override { return 1; }
  api::DiffReport diff() override { return {}; }
  api::ReloadReport restart() override { return count(), api::ReloadReport{}; }
  // As the daemon does: any object is read as a job, and may be one.
  void add_job(const api::Json& job, api::IfRevision /*if_revision*/, api::ChangeDone done) override {
    read(job);
    count();
    done(api::JobChange{});
  }
  void set_job(const std::string& /*name*/, const api::Json& keys, api::IfRevision /*if_revision*/,
               api::ChangeDone done) override {
    TALLY_CHECK(keys.is_object() && !keys.empty(), "keys to set");
    read(api::overlaid({{"name", "job"}, {"workers", 2}}, keys));
    count();
    done(api::JobChange{});
  }
  void remove_job(const std::string& name, bool /*abort*/, api::IfRevision /*if_revision*/,
                  api::ChangeDone done) override {
    TALLY_CHECK(!name.empty() && name.size() <= 64, "a name");
    count();
    done(api::JobChange{});
  }
  Result<void> abort(const std::string& /*job*/, const std::string& reason) override {
    TALLY_CHECK(!reason.empty() && reason.size() <= 512, "a reason that fits an ABORT");
    return count(), Result<void>();
  }
  Result<void> replan(const std::string& job) override {
    TALLY_CHECK(!job.empty() && job.size() <= 64, "a name");
    return count(), Result<void>();
  }
  std::vector<doctor::Finding> examine() override { return {}; }
  Result<void> start_trace(const api::TraceWish& wish) override {
    TALLY_CHECK(wish.every >= 1 && wish.frames >= 1 && wish.seconds >= 1, "within the ranges of the table");
    return count(), Result<void>();
  }
  api::TraceBatch read_trace() override { return {}; }
  void stop_trace() override { count(); }
  api::TraceStatus trace() override { return {}; }
  void set_log_level(config::LogSection::Level level) override {
    TALLY_CHECK(level <= config::LogSection::Level::kError, "a level");
    count();
  }
  void note(const std::string& text) override {
    for (const char c : text) TALLY_CHECK(static_cast<unsigned char>(c) >= 0x20, "fit for a log");
    ++notes_;
  }
  [[nodiscard]] int notes() const noexcept { return notes_; }
  [[nodiscard]] int changes() const noexcept { return changes_; }

 private:
  void count() noexcept { ++changes_; }
  void read(const api::Json& job) const {
    const auto read = config::read_one_job(api::node_of(job), *now_->config, ".", config::TokenFiles::kLeave);
    if (!read) check_failure(api::job_failure(read.error()));
  }
  static void check_failure(const api::Failure& failure) {
    TALLY_CHECK(!failure.data["diagnostics"].empty(), "an error says what is wrong");
    for (const api::Json& d : failure.data["diagnostics"])
      TALLY_CHECK(!d["message"].get<std::string>().empty(), "in words");
  }

  std::shared_ptr<const api::Snapshot> now_;
  int changes_ = 0;
  int notes_ = 0;
};

void check_answer(const std::string& answer) {
  TALLY_CHECK(answer.ends_with('\n') && answer.find('\n') == answer.size() - 1, "one line");
  const api::Json json = api::Json::parse(answer, nullptr, false);
  TALLY_CHECK(json.is_object() && json.value("jsonrpc", "") == "2.0" && json.contains("id"), "an answer");
  TALLY_CHECK(json.contains("result") != json.contains("error"), "a result or an error");
  if (json.contains("error"))
    TALLY_CHECK(
        json["error"]["code"].is_number_integer() && !json["error"]["message"].get<std::string>().empty(),
        "an error in words");
  for (const char c : answer.substr(0, answer.size() - 1))
    TALLY_CHECK(static_cast<unsigned char>(c) >= 0x20, "no control character");
}

std::string answer_to(std::string_view line, bool may_change, CountedBox& box) {
  api::Reply reply = api::answer(line, {.may_change = may_change, .whom_to_be = "root"}, box, "0");
  if (reply.rest) reply.text.append(reply.rest->all()).append(api::kEndOfRest);
  return reply.text;
}

void ask(std::string_view line) {
  CountedBox box;
  const std::string read_only = answer_to(line, false, box);
  TALLY_CHECK(box.changes() == 0, "who may only read changes nothing");
  const std::string answer = answer_to(line, true, box);
  TALLY_CHECK(box.changes() <= 1, "one change at most");
  TALLY_CHECK(box.notes() <= 1 && box.changes() <= box.notes(), "no change without a line of the log");
  TALLY_CHECK(read_only.empty() == answer.empty(), "the same lines are notifications");
  if (!answer.empty()) check_answer(answer);
  if (!read_only.empty()) check_answer(read_only);
}

}  // namespace
}  // namespace tally

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // On the heap in its exact size; lines as the server parts them.
  std::string all(reinterpret_cast<const char*>(data), size);
  for (std::size_t at = 0; at <= all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    tally::ask(std::string(all, at, end - at));
    at = end + 1;
  }
  return 0;
}
