#include "plan_tool/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "config/diagnostic.h"
#include "text/text.h"

namespace tally::plan_tool {
namespace {

constexpr std::size_t kMostBoxes = 255;  // a plan names them in a byte

constexpr const char* kFooter =
    "FILE is the YAML of a cluster (man tally-cluster); - is stdin. Rates are Gbit/s that every worker "
    "sends.\n"
    "Exit codes: 0 good, 1 failed, 2 wrong usage, 3 not good (the file has errors, or a job has no plan).\n"
    "Examples: " TALLY_EXAMPLES "/cluster-*.yaml";

std::string complaint(const std::string& what) {
  return "tally-plan: " + what + "\nTry 'tally-plan --help'.\n";
}

class Parser {
 public:
  Parser() {
    app_.footer(kFooter);
    app_.require_subcommand(1);
    app_.set_version_flag("--version", "tally-plan " TALLY_VERSION);
    CLI::App* const show =
        verb("show", "What each job gets, what is full, and what it would have without a plan",
             CommandLine::Verb::kShow);
    job(show);
    show->add_flag("--all", line_.all_loads, "The load of everything that is used, not of the fullest");
    CLI::App* const buy =
        verb("buy", "Where boxes bring most, and how much each one more", CommandLine::Verb::kBuy);
    buy->add_option("--boxes", line_.boxes, "How many at most")
        ->required()
        ->check(CLI::Range(std::size_t{1}, kMostBoxes))
        ->type_name("K");
    buy->add_option("--rate", line_.rate, "What each takes in (default 100G)")->type_name("RATE");
    buy->add_option("--at", line_.at,
                    "Only at these switches, such as rack[1-8] (default: all without a box)")
        ->type_name("NAMES");
    buy->add_flag("--instead", line_.instead, "Without the boxes of the file");
    CLI::App* const what_if =
        verb("what-if", "The plans after a loss beside those before", CommandLine::Verb::kWhatIf);
    what_if->add_option("--lose", line_.lose, "box=NAME, link=A-B or switch=NAME; may be said again")
        ->required()
        ->type_name("WHAT");
    job(what_if);
  }

  tl::expected<CommandLine, std::string> parse(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      const auto named = app_.get_subcommands();
      line_.verb = CommandLine::Verb::kHelp;
      line_.text = named.empty() ? app_.help() : named.front()->help();
      return line_;
    } catch (const CLI::CallForVersion& e) {
      line_.verb = CommandLine::Verb::kHelp;
      line_.text = std::string(e.what()) + "\n";
      return line_;
    } catch (const CLI::Error& e) {
      const std::string word = unknown_verb(argc, argv);
      return tl::unexpected<std::string>(complaint(word.empty() ? text::cleaned(e.what()) : word));
    }
    return line_;
  }

  std::vector<VerbWords> words() const {
    std::vector<VerbWords> all;
    for (const CLI::App* sub : app_.get_subcommands([](const CLI::App*) { return true; })) {
      VerbWords& words = all.emplace_back(VerbWords{sub->get_name()});
      for (const CLI::Option* option : sub->get_options()) {
        for (const std::string& name : option->get_lnames()) words.options.push_back("--" + name);
      }
    }
    return all;
  }

 private:
  CLI::App* verb(const char* name, const char* help, CommandLine::Verb meant) {
    CLI::App* const sub = app_.add_subcommand(name, help);
    sub->callback([this, meant] { line_.verb = meant; });
    sub->add_option("file", line_.file, "The YAML of a cluster; - is stdin")->required()->type_name("FILE");
    sub->add_flag("--json", line_.json, "For programs");
    return sub;
  }

  void job(CLI::App* of) {
    of->add_option("--job", line_.job, "Only this one; the others are planned as well")->type_name("JOB");
  }

  // What CLI11 only calls unexpected or required.
  std::string unknown_verb(int argc, const char* const* argv) const {
    std::vector<std::string> verbs;
    for (const VerbWords& words : words()) verbs.push_back(words.verb);
    const std::string all = text::listed(verbs);
    if (argc < 2) return "it needs one of " + all;
    const std::string word = argv[1];
    if (word.starts_with('-') || std::ranges::find(verbs, word) != verbs.end()) return {};
    const std::string near = config::nearest(word, verbs);
    return "there is no '" + text::cleaned(word) + "' here" +
           (near.empty() ? ", but " + all : "; did you mean " + near + "?");
  }

  CLI::App app_{"tally-plan, plans of jobs over many boxes, before there is one", "tally-plan"};
  CommandLine line_{};
};

}  // namespace

tl::expected<CommandLine, std::string> parse_command_line(int argc, const char* const* argv) {
  return Parser().parse(argc, argv);
}

std::vector<VerbWords> verb_words() { return Parser().words(); }

}  // namespace tally::plan_tool
