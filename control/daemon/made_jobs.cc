#include "daemon/made_jobs.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "api/job_json.h"
#include "api/results.h"
#include "config/load_config.h"
#include "config/one_job.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

api::Failure not_now(const std::string& text, const std::string& job) {
  return {api::Code::kNotNow, text, api::Json{{"job", job}}};
}

std::string named(const std::string& name) { return "job '" + text::cleaned(name) + "'"; }

// The folder; empty: none is meant, and why.
std::string state_folder(const std::string& configured, std::string& why_not) {
  if (configured == "none") {
    why_not = "control.state is none";
    return {};
  }
  if (configured != "auto") return configured;
  const char* const given = std::getenv("STATE_DIRECTORY");  // of systemd: one or more, parted by ':'
  std::string folder = given == nullptr ? "" : given;
  folder.resize(std::min(folder.find(':'), folder.size()));
  if (folder.empty()) why_not = "control.state names no folder, and systemd has made none for this tallyd";
  return folder;
}

}  // namespace

Result<Keeping> find_state(const config::Config& config, const LogSink& log) {
  Keeping keeping;
  const std::string folder = state_folder(config.control.state, keeping.why_not);
  if (folder.empty()) return keeping;
  if (auto usable = usable_folder(folder); !usable) return tl::unexpected<Error>(std::move(usable.error()));
  keeping.path = folder + "/" + config.instance + ".jobs.json";
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(keeping.path, error))) return keeping;
  auto file = config::read_file(keeping.path, kMaxStateBytes, config::FileKind::kRegular);
  std::string why = file ? "" : "cannot be read: " + file.error().message;
  if (file) {
    auto state = read_state(file->text, config.instance);
    if (state) {
      keeping.state = std::move(*state);
      keeping.text = std::move(file->text);
      return keeping;
    }
    why = std::move(state.error());
  }
  const auto aside = set_aside(keeping.path);
  log(LogLevel::kError,
      "the file of the jobs of job.add, " + keeping.path + ", " + why + ". " +
          (aside ? "It is " + *aside + " from now on, and none of its jobs is declared"
                 : aside.error().text() + "; nothing of job.add is kept until that is mended"));
  if (!aside) {
    keeping.unusable = true;
    keeping.why_not = keeping.path + " " + why;
  }
  return keeping;
}

void MadeJobs::begin(const Keeping& keeping, std::uint64_t revision) {
  revision_ = revision;
  instance_ = parts_.reload.config().instance;
  why_not_kept_ = keeping.why_not;
  unusable_ = keeping.unusable;
  for (const api::Json& job : keeping.state.jobs) {
    const auto name = job.find("name");
    Made& made =
        made_.emplace_back(Made{name != job.end() && name->is_string() ? name->get<std::string>() : "", job});
    declare(made);
  }
}

void MadeJobs::declare(Made& made) {
  const config::Config& config = parts_.reload.config();
  const bool taken = std::ranges::any_of(
      config.jobs, [&](const auto& job) { return members::common_of(job).name == made.name; });
  const auto read = config::read_one_job(api::node_of(made.job), config, parts_.directory);
  if (taken) {
    made.why_not =
        "the file has a job of this name; remove it there and reload, or tallyctl job remove " + made.name;
  } else if (!read) {
    made.why_not = config::one_line(api::with_pointers(read.error()).front());
  } else if (auto done = parts_.reload.make(read->job, parts_.engine); !done) {
    made.why_not = done.error().text();
  } else {
    made.why_not.clear();
    parts_.log(LogLevel::kInfo, named(made.name) + " of job.add is declared: its workers may come",
               {.kind = "job.declared", .job = made.name});
    return;
  }
  parts_.log(LogLevel::kError, named(made.name) + " of job.add is kept, but not declared: " + made.why_not);
}

void MadeJobs::retry() {
  for (Made& made : made_) {
    if (made.why_not.empty()) continue;
    declare(made);
    if (made.why_not.empty()) count_change();
  }
}

std::vector<std::string> MadeJobs::dormant() const {
  std::vector<std::string> all;
  for (const Made& made : made_) {
    if (!made.why_not.empty()) all.push_back(dormant_text(made));
  }
  return all;
}

std::string MadeJobs::dormant_text(const Made& made) {
  return named(made.name) + " is not declared: " + made.why_not;
}

std::vector<MadeJobs::Made>::iterator MadeJobs::find(const std::string& name) {
  return std::ranges::find(made_, name, &Made::name);
}

void MadeJobs::after(std::function<void()> then) {
  if (busy_)
    waiting_.push_back(std::move(then));
  else
    then();
}

std::optional<api::Failure> MadeJobs::objection(api::IfRevision if_revision) const {
  if (parts_.ending())
    return api::Failure{api::Code::kNotNow, "the box is shutting down; nothing was changed",
                        api::Json::object()};
  return api::objection_to(if_revision, revision_);
}

void MadeJobs::finish(const api::ChangeDone& done, Outcome outcome) {
  if (outcome) {
    ++revision_;
    parts_.changed();
  }
  done(std::move(outcome));
  while (!busy_ && !waiting_.empty()) {
    const auto next = std::move(waiting_.front());
    waiting_.pop_front();
    next();
  }
}

void MadeJobs::add(api::Json job, api::IfRevision if_revision, api::ChangeDone done) {
  after([this, job = std::move(job), if_revision, done = std::move(done)] {
    if (auto no = objection(if_revision)) return done(tl::unexpected<api::Failure>(std::move(*no)));
    do_add(job, done);
  });
}

void MadeJobs::set(std::string name, api::Json keys, api::IfRevision if_revision, api::ChangeDone done) {
  after([this, name = std::move(name), keys = std::move(keys), if_revision, done = std::move(done)] {
    if (auto no = objection(if_revision)) return done(tl::unexpected<api::Failure>(std::move(*no)));
    do_set(name, keys, done);
  });
}

void MadeJobs::remove(std::string name, bool abort, api::IfRevision if_revision, api::ChangeDone done) {
  after([this, name = std::move(name), abort, if_revision, done = std::move(done)] {
    if (auto no = objection(if_revision)) return done(tl::unexpected<api::Failure>(std::move(*no)));
    do_remove(name, abort, done);
  });
}

// Once a file is written, of which nothing but that it is there may have changed.
void MadeJobs::write(const std::vector<Made>& jobs, std::function<void(Result<void>)> done) {
  State state{instance_, {}};
  for (const Made& made : jobs) state.jobs.push_back(made.job);
  std::string text = state_text(state);
  if (text.size() > kMaxStateBytes)
    return done(fail(ErrorCode::kSystem, "the file of the jobs would have more than " +
                                             std::to_string(kMaxStateBytes) + " bytes"));
  busy_ = true;
  parts_.save(std::move(text), [this, done = std::move(done)](Result<void> written) {
    busy_ = false;
    done(std::move(written));
  });
}

void MadeJobs::keep(const std::vector<Made>& next, std::function<Outcome()> apply,
                    const api::ChangeDone& done) {
  const auto carry_out = [this, next, apply = std::move(apply), done] {
    Outcome outcome = apply();
    if (outcome) {
      made_ = next;
      if (!parts_.save) outcome->notes.push_back("it is gone when tallyd ends: " + why_not_kept_);
      return finish(done, std::move(outcome));
    }
    if (!parts_.save) return finish(done, std::move(outcome));
    write(made_, [this, done, outcome](const Result<void>& written) {
      if (!written)
        parts_.log(LogLevel::kError,
                   written.error().text() + ": the next start finds a change there that was refused here");
      finish(done, outcome);
    });
  };
  if (unusable_)
    return finish(
        done, tl::unexpected<api::Failure>(
                  {api::Code::kNotKept, "nothing was changed, because it could not be kept: " + why_not_kept_,
                   api::Json{{"want", "that file mended or moved, and tallyd started again"}}}));
  if (!parts_.save) return carry_out();
  write(next, [this, carry_out, done](const Result<void>& written) {
    if (written) return carry_out();
    parts_.log(LogLevel::kError, "a change of the jobs was refused: " + written.error().text());
    finish(done, tl::unexpected<api::Failure>(
                     {api::Code::kNotKept,
                      "nothing was changed, because it could not be kept: " + written.error().text(),
                      api::Json{{"errno", written.error().sys_errno},
                                {"want", "a disk with room that works; control.state names the folder"}}}));
  });
}

void MadeJobs::do_add(api::Json job, const api::ChangeDone& done) {
  const auto given = job.find("name");
  const std::string name = given != job.end() && given->is_string() ? given->get<std::string>() : "";
  const config::Config& config = parts_.reload.config();
  const bool dormant = find(name) != made_.end();
  if (dormant ||
      std::ranges::any_of(config.jobs, [&](const auto& j) { return members::common_of(j).name == name; })) {
    const bool here = dormant || parts_.reload.made(name);
    return finish(done, tl::unexpected<api::Failure>(
                            {api::Code::kExists,
                             "there is a " + named(name) + " already, " +
                                 (here ? "of job.add" : "of the configuration file"),
                             api::Json{{"path", "/name"},
                                       {"got", name},
                                       {"want", here ? "another name; or job.set, or job.remove first"
                                                     : "another name; or change the file and reload"}}}));
  }
  auto read = config::read_one_job(api::node_of(job), config, parts_.directory);
  if (!read) return finish(done, tl::unexpected<api::Failure>(api::job_failure(std::move(read.error()))));
  if (const auto* const native = std::get_if<config::NativeConfig>(&read->job);
      native != nullptr && !native->token_file.empty())
    job["token_file"] = native->token_file;  // wherever the file of the configuration is by then
  std::vector<Made> next = made_;
  next.push_back({name, std::move(job)});
  keep(
      next,
      [this, name, read = std::move(*read)]() -> Outcome {
        auto made = parts_.reload.make(read.job, parts_.engine);
        if (!made) return tl::unexpected<api::Failure>(not_now(made.error().text(), name));
        parts_.log(LogLevel::kInfo, named(name) + " is declared: its workers may come",
                   {.kind = "job.declared", .job = name});
        return api::JobChange{{}, api::with_pointers(read.warnings)};
      },
      done);
}

api::Failure MadeJobs::unknown(const std::string& name) const {
  if (const std::string job = parts_.engine.group_of(name); !job.empty())
    return not_now(named(name) + " is a group of " + named(job) +
                       ": it has that one's keys, and is forgotten when nobody was in it for a while "
                       "(tallyctl job abort ends what it does now)",
                   name);
  std::vector<std::string> names;
  for (const auto& job : parts_.reload.config().jobs) names.push_back(members::common_of(job).name);
  return api::no_such_job(names, name);
}

void MadeJobs::do_set(const std::string& name, const api::Json& keys, const api::ChangeDone& done) {
  config::Config others = parts_.reload.config();
  const auto at = std::ranges::find_if(others.jobs,
                                       [&](const auto& job) { return members::common_of(job).name == name; });
  if (at == others.jobs.end()) {
    const auto dormant = find(name);  // what is kept and declared is in force
    return finish(done, tl::unexpected<api::Failure>(
                            dormant == made_.end() ? unknown(name) : not_now(dormant_text(*dormant), name)));
  }
  const bool made = parts_.reload.made(name);
  std::vector<Made> next = made_;
  const auto mine = std::ranges::find(next, name, &Made::name);
  if (made) mine->job = api::overlaid(std::move(mine->job), keys);
  const config::YamlNode node =
      made ? api::node_of(mine->job) : config::overlaid(config::node_of(*at), api::node_of(keys));
  others.jobs.erase(at);
  auto read = config::read_one_job(node, others, parts_.directory);
  if (!read) return finish(done, tl::unexpected<api::Failure>(api::job_failure(std::move(read.error()))));
  if (const auto* const native = std::get_if<config::NativeConfig>(&read->job);
      made && native != nullptr && !native->token_file.empty())
    mine->job["token_file"] = native->token_file;
  const auto apply = [this, name, read = std::move(*read)]() -> Outcome {
    api::JobChange change{{}, api::with_pointers(read.warnings)};
    auto set = parts_.reload.set(read.job, parts_.engine, parts_.now(), change.notes);
    if (!set) return tl::unexpected<api::Failure>(not_now(set.error().text(), name));
    return change;
  };
  if (made) return keep(next, apply, done);
  Outcome outcome = apply();
  if (outcome) outcome->notes.emplace_back("it is the file's: this holds until the next reload or start");
  finish(done, std::move(outcome));
}

// Somebody would lose something.
bool MadeJobs::peopled(const std::string& name) const {
  for (const members::JobStatus& job : parts_.engine.status(parts_.now())) {
    if (job.name != name) continue;
    if (job.session) return job.live != 0;
    return std::ranges::any_of(job.ranks, [](const auto& rank) { return rank.joined && !rank.left; });
  }
  return false;
}

void MadeJobs::do_remove(const std::string& name, bool abort, const api::ChangeDone& done) {
  const auto made = find(name);
  if (made == made_.end()) {
    const bool files = std::ranges::any_of(
        parts_.reload.config().jobs, [&](const auto& job) { return members::common_of(job).name == name; });
    return finish(
        done,
        tl::unexpected<api::Failure>(
            files ? not_now(named(name) + " is of the configuration file: take it out there and reload", name)
                  : unknown(name)));
  }
  const bool declared = made->why_not.empty();
  const auto apply = [this, name, abort, declared]() -> Outcome {
    if (!declared) return api::JobChange{};
    if (!abort && peopled(name)) {
      api::Failure no = not_now(named(name) + " has workers, which would be told that it is over", name);
      no.data["want"] = "abort: true (tallyctl job remove --abort), or to wait until they have left";
      return tl::unexpected<api::Failure>(std::move(no));
    }
    auto gone = parts_.reload.unmake(name, parts_.engine);
    if (!gone) return tl::unexpected<api::Failure>(not_now(gone.error().text(), name));
    parts_.log(LogLevel::kInfo, named(name) + " is removed", {.kind = "job.removed", .job = name});
    return api::JobChange{};
  };
  if (declared && !abort && peopled(name)) return finish(done, apply());  // before anything is written
  std::vector<Made> next = made_;
  std::erase_if(next, [&](const Made& m) { return m.name == name; });
  keep(next, apply, done);
}

}  // namespace tally::daemon
