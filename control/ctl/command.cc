#include "ctl/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <system_error>
#include <vector>

#include "text/text.h"

namespace tally::ctl {
namespace {

// The daemon sends who says nothing for 60 s away.
constexpr double kLongestInterval = 30;

constexpr const char* kFooter =
    "The daemon is found by --socket, by --instance NAME (/run/tally/NAME.sock), by TALLYCTL_SOCKET, or "
    "because\n"
    "only one answers in /run/tally. Data goes to stdout, messages to stderr.\n"
    "Exit codes: 0 good, 1 failed, 2 wrong usage, 3 not good (health, doctor, a file or\n"
    "a job with errors), 4 no daemon, 5 not "
    "permitted.";

// The nearest of the words to one that is none of them; empty if none is near.
std::string meant(const std::string& word, const std::vector<std::string>& words) {
  std::string best;
  std::size_t fewest = 3;
  for (const std::string& candidate : words) {
    const std::size_t errors = text::typing_errors(word, candidate);
    if (errors < fewest && errors < candidate.size()) {
      best = candidate;
      fewest = errors;
    }
  }
  return best;
}

// CLI::Range lets "nan" by.
CLI::Validator seconds_from(double least, double most) {
  const std::string form = text::fixed(least, 2) + " to " + text::fixed(most, 0);
  return {[=](std::string& word) {
            double seconds = 0;
            const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), seconds);
            const bool fits = error == std::errc() && end == word.data() + word.size() && seconds >= least &&
                              seconds <= most;
            return fits ? std::string() : text::cleaned(word) + " is no number of seconds from " + form;
          },
          form, "SECONDS"};
}

std::string complaint(const std::string& what) { return "tallyctl: " + what + "\nTry 'tallyctl --help'.\n"; }

std::vector<std::string> words_under(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    words.push_back(sub->get_name());
  return words;
}

// What CLI11 only calls unexpected or required: the word that stands where a noun or a verb should, or those
// that might. Empty: it is something else.
std::string unknown_word(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with('-')) {
      // All options that may stand in front of a noun have a value.
      if (app.get_option_no_throw(word.substr(0, word.find('='))) == nullptr) return {};
      if (word.find('=') == std::string::npos) ++i;
      continue;
    }
    const std::vector<std::string> words = words_under(*at);
    if (words.empty()) return {};
    const auto found = std::find(words.begin(), words.end(), word);
    if (found == words.end()) {
      const std::string near = meant(word, words);
      return "there is no '" + text::cleaned(word) + "' here" +
             (near.empty() ? ", but " + text::listed(words) : "; did you mean " + near + "?");
    }
    at = at->get_subcommand(word);
  }
  const std::vector<std::string> words = words_under(*at);
  if (words.empty()) return {};
  return at->get_name() + " needs one of " + text::listed(words);
}

// Numbers, truth values, lists and objects are what they look like; all else is a text, as in YAML.
Json value_of(const std::string& word) {
  Json value = Json::parse(word, nullptr, false);
  const bool taken = value.is_number() || value.is_boolean() || value.is_structured();
  return taken ? value : Json(word);
}

// quota.cap=30%: a key in a key. False: it is none.
bool put_key(Json& target, const std::string& word) {
  const std::size_t end = word.find('=');
  if (end == std::string::npos || end == 0) return false;
  Json* at = &target;
  std::size_t begin = 0;
  for (std::size_t dot = word.find('.'); dot < end; dot = word.find('.', begin)) {
    at = &(*at)[word.substr(begin, dot - begin)];
    if (!at->is_object() && !at->is_null()) return false;
    begin = dot + 1;
  }
  (*at)[word.substr(begin, end - begin)] = value_of(word.substr(end + 1));
  return true;
}

class Parser {
 public:
  Parser() {
    app_.footer(kFooter);
    app_.require_subcommand(1);
    app_.set_version_flag("--version", "tallyctl " TALLY_VERSION);
    app_.add_option("-o,--output", output_, "table or json")
        ->check(CLI::IsMember({"table", "json", "names"}))
        ->type_name("FORM");
    CLI::Option* const socket =
        app_.add_option("--socket", command_.socket, "The daemon's socket")->type_name("PATH");
    app_.add_option("--instance", command_.instance, "The daemon's instance name")
        ->type_name("NAME")
        ->excludes(socket);
    app_.add_option("--timeout", timeout_, "How long to wait for an answer, seconds (default 5)")
        ->check(seconds_from(0.01, 3600))
        ->envname("TALLYCTL_TIMEOUT");
    add_verbs();
  }

  tl::expected<Command, std::string> parse(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      // Of the innermost command that was named.
      const CLI::App* at = &app_;
      while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
      command_.page = Page::kHelp;
      command_.text = at->help();
      return command_;
    } catch (const CLI::CallForVersion& e) {
      command_.page = Page::kHelp;
      command_.text = std::string(e.what()) + "\n";
      return command_;
    } catch (const CLI::Error& e) {
      const std::string word = unknown_word(app_, argc, argv);
      return tl::unexpected<std::string>(complaint(word.empty() ? e.what() : word));
    }
    // The environment is a default: what is said by hand has the last word.
    const char* const path = std::getenv("TALLYCTL_SOCKET");
    if (path != nullptr && command_.socket.empty() && command_.instance.empty()) command_.socket = path;
    // Of job add they are the job, of job set parameters.
    Json& target = command_.method == "job.add" ? command_.parameters["job"] : command_.parameters;
    if (command_.method == "job.add" && command_.file.empty() && keys_.empty())
      return tl::unexpected<std::string>(complaint("job add needs keys, or --file"));
    for (const std::string& word : keys_) {
      if (!put_key(target, word))
        return tl::unexpected<std::string>(complaint("'" + text::cleaned(word) + "' is no KEY=VALUE"));
    }
    command_.output = output_ == "json"    ? Output::kJson
                      : output_ == "names" ? Output::kNames
                                           : Output::kTable;
    command_.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout_ * 1000));
    command_.interval = std::chrono::milliseconds(static_cast<std::int64_t>(interval_ * 1000));
    return command_;
  }

  std::vector<VerbWords> words() const {
    std::vector<VerbWords> all;
    add_words(app_, "", all);
    return all;
  }

 private:
  static void add_words(const CLI::App& app, const std::string& verb, std::vector<VerbWords>& all) {
    const auto under = app.get_subcommands([](const CLI::App*) { return true; });
    // Of one that needs no verb behind it, both.
    if (under.empty() || verb.empty() || app.get_require_subcommand_min() == 0) {
      VerbWords& words = all.emplace_back(VerbWords{verb});
      for (const CLI::Option* option : app.get_options()) {
        for (const std::string& name : option->get_lnames()) words.options.push_back("--" + name);
      }
    }
    for (const CLI::App* sub : under)
      add_words(*sub, verb.empty() ? sub->get_name() : verb + " " + sub->get_name(), all);
  }

  CLI::App* noun(const char* name, const char* help) {
    CLI::App* const sub = app_.add_subcommand(name, help);
    sub->fallthrough();
    sub->require_subcommand(1);
    return sub;
  }

  CLI::App* verb(CLI::App* under, const char* name, const char* help, Page page, const char* method) {
    CLI::App* const sub = under->add_subcommand(name, help);
    sub->fallthrough();
    sub->callback([this, page, method] {
      command_.page = page;
      command_.method = method;
    });
    return sub;
  }

  // A text that goes to the daemon as it is.
  void parameter(CLI::App* of, const char* option, const char* name, const char* help) {
    of->add_option_function<std::string>(
          option, [this, name](const std::string& value) { command_.parameters[name] = value; }, help)
        ->required();
  }

  CLI::Option* keys(CLI::App* of, const char* help) {
    return of->add_option("key", keys_, help)->type_name("KEY=VALUE");
  }

  void add_verbs() {
    CLI::App* const job = noun("job", "Jobs and their ranks");
    verb(job, "list", "Every job: phase, who is there, what it has done", Page::kJobs, "job.list");
    parameter(verb(job, "show", "Who is late: one job with all its ranks", Page::kJob, "job.show"), "name",
              "name", "The job");
    CLI::App* const add =
        verb(job, "add", "Declares a job, which is kept where control.state says", Page::kJob, "job.add");
    CLI::Option* const file =
        add->add_option("-f,--file", command_.file, "JSON: an entry of jobs:; - is stdin");
    keys(add, "Keys of jobs:, such as name=resnet workers=4 quota.cap=30%")->excludes(file);
    CLI::App* const set = verb(job, "set", "Changes keys of a job, while it runs", Page::kJob, "job.set");
    parameter(set, "name", "name", "The job");
    keys(set, "window=512 priority=200 quota.cap=30% stragglers='{\"timeout\":\"50ms\",\"min\":3}'")
        ->required();
    CLI::App* const remove = verb(job, "remove", "Takes back a job of job add", Page::kRemoved, "job.remove");
    parameter(remove, "name", "name", "The job");
    remove->add_flag_callback(
        "--abort", [this] { command_.parameters["abort"] = true; }, "Also if somebody is in it, who is told");
    CLI::App* const abort =
        verb(job, "abort", "Ends what the job does; its workers are told why", Page::kJob, "job.abort");
    parameter(abort, "name", "name", "The job");
    parameter(abort, "--reason", "reason", "What its workers are told");
    parameter(verb(job, "replan", "Another plan for a job over several boxes: lost ones are in it again",
                   Page::kJob, "job.replan"),
              "name", "name", "The job");
    verb(noun("port", "Ports"), "list", "Every port: link, packets, losses", Page::kPorts, "port.list");
    verb(noun("core", "Data cores"), "list", "Every data core: how busy it is, what it counts", Page::kCores,
         "core.list");
    verb(noun("slot", "Slot memory"), "show", "Who holds how much of it", Page::kSlots, "slot.show");
    verb(noun("drop", "Packets that were dropped"), "list", "Every reason that happened, and what to do",
         Page::kDrops, "drop.list");
    CLI::App* const config = noun("config", "The configuration");
    verb(config, "show", "What is in force, with all defaults", Page::kConfig, "config.show");
    CLI::App* const check =
        verb(config, "check", "What is wrong with a file; changes nothing", Page::kCheck, "config.check");
    check->add_option("file", command_.file, "YAML; - is stdin")->required();
    verb(config, "diff", "What a reload would change, and when it takes effect", Page::kDiff, "config.diff");
    verb(config, "reload", "Reads the daemon's file again, as SIGHUP does", Page::kReload, "config.reload");
    CLI::App* const log = verb(noun("log", "The daemon's log"), "set",
                               "The least important messages to be printed", Page::kLog, "log.set");
    parameter(log, "level", "level", "trace, debug, info, warning or error");
    verb(&app_, "restart", "tallyd begins anew from what is on disk by now; no job ends", Page::kRestart,
         "daemon.restart");
    verb(&app_, "fleet", "The boxes of the fleet, who plans, and whether etcd answers", Page::kFleet,
         "fleet.show");
    add_plan();
    verb(&app_, "stats", "All counters in one answer", Page::kStats, "stats.get");
    verb(&app_, "health", "Whether the box is well; exit code 3 if not", Page::kHealth, "health.get");
    verb(&app_, "version", "Versions of the interface and of the daemon", Page::kVersion, "api.version");
    verb(&app_, "doctor", "What is wrong with this machine, and the command that mends it", Page::kDoctor,
         "doctor.run");
    verb(&app_, "events", "What happens, a line each, until Control-C", Page::kEvents, "event.subscribe");
    add_trace();
    CLI::App* const top = verb(&app_, "top", "A live view; q ends it", Page::kTop, "stats.get");
    top->add_flag("--once", command_.once, "One frame, for a file or a pipe");
    top->add_option("--interval", interval_, "Between two frames, seconds (default 1)")
        ->check(seconds_from(0.1, kLongestInterval));
  }

  // A noun that is a verb too.
  void add_plan() {
    CLI::App* const plan = app_.add_subcommand("plan", "Who sums what of jobs over several boxes, and why");
    plan->fallthrough();
    plan->require_subcommand(0, 1);
    plan->add_option_function<std::string>(
        "job", [this](const std::string& name) { command_.parameters["name"] = name; }, "This one alone");
    plan->add_flag_callback(
        "--all", [this] { command_.every_load = true; }, "Every load, not only the fullest");
    plan->callback([this, plan] {
      if (!plan->get_subcommands().empty()) return;
      command_.page = Page::kPlan;
      command_.method = "plan.show";
      if (command_.every_load) command_.parameters["all"] = true;
    });
    CLI::App* const rate =
        verb(plan, "set-rate", "What a link, a box or a server has from now on: plans follow",
             Page::kPlanRate, "plan.rate");
    parameter(rate, "resource", "resource", "As 'tallyctl plan' names it, such as 'link rack1 to spine2'");
    parameter(rate, "rate", "rate", "Such as 25G; 0: it is down; file: what the cluster's file says");
  }

  void add_trace() {
    CLI::App* const trace = noun("trace", "A sample of frames, for Wireshark");
    CLI::App* const write = trace->add_subcommand("write", "Writes frames and what became of them: pcapng");
    write->fallthrough();
    write->add_option("file", command_.file, "- is stdout")->required();
    write->add_option("--job", trace_.job, "Only frames of this job");
    write->add_option("--port", trace_.port, "Only frames of this port");
    write->add_option("--way", trace_.way, "in, out or both (default both)");
    write->add_option("--drop", trace_.drop, "Only frames dropped for this reason, or for 'any'");
    write->add_option("--every", trace_.every, "Of the frames that fit, one of so many (default 1)");
    write->add_option("--frames", trace_.frames, "After so many it ends (default 10,000)");
    write->add_option("--seconds", trace_.seconds, "After so long it ends (default 10)");
    write->add_option("--bytes", trace_.bytes, "When the file is so large it ends (default 64,000,000)");
    write->callback([this] {
      command_.page = Page::kTrace;
      command_.method = "trace.start";
      command_.most_bytes = trace_.bytes;
      command_.parameters =
          Json{{"job", trace_.job},        {"port", trace_.port},   {"way", trace_.way},
               {"drop", trace_.drop},      {"every", trace_.every}, {"frames", trace_.frames},
               {"seconds", trace_.seconds}};
    });
    verb(trace, "stop", "Ends the one that runs", Page::kTraceState, "trace.stop");
    verb(trace, "list", "The one that runs, or the last one", Page::kTraceState, "trace.list");
  }

  struct TraceOptions {
    std::string job{};
    std::string port{};
    std::string way = "both";
    std::string drop{};
    std::uint64_t every = 1;
    std::uint64_t frames = 10'000;
    std::uint64_t seconds = 10;
    std::uint64_t bytes = 64'000'000;
  };

  CLI::App app_{"tallyctl, what a running tallyd does and how to change it", "tallyctl"};
  Command command_{};
  std::string output_ = "table";
  double timeout_ = 5;
  double interval_ = 1;
  TraceOptions trace_{};
  std::vector<std::string> keys_{};
};

}  // namespace

std::vector<VerbWords> verb_words() { return Parser().words(); }

tl::expected<Command, std::string> parse_command(int argc, const char* const* argv) {
  return Parser().parse(argc, argv);
}

}  // namespace tally::ctl
