#pragma once
// The command line of a bench, by CLI11, whose templates take longer to compile than most benches: command_line.cc has
// them once, unoptimised.

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tally::bench {

class CommandLine {
 public:
  // What else holds for an option that was added.
  class Option {
   public:
    explicit Option(CLI::Option& option) : option_(option) {}
    Option& required();
    Option& shows_default();  // in --help: what it is if it is not given
    Option& range(int least, int most);
    Option& positive();
    Option& one_of(const std::vector<std::string>& words);
    // `objection` to a word, empty if there is none; --help calls a word `name`.
    Option& check(const std::function<std::string(const std::string&)>& objection, const std::string& name);

   private:
    CLI::Option& option_;
  };

  // Without a name that of the file which was started.
  explicit CommandLine(const std::string& what, const std::string& name = {});
  ~CommandLine();

  // T: one of the types that command_line.cc names.
  template <class T>
  Option option(const std::string& name, T& value, const std::string& says = {});
  // Several, also between commas.
  template <class T>
  Option option(const std::string& name, std::vector<T>& values, const std::string& says = {});
  void flag(const std::string& name, bool& value, const std::string& says = {});

  // Into the values of all options. Ends the process after --help, and with CLI11's words and exit code after a mistake.
  void parse(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace tally::bench
