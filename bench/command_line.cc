#include "command_line.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>

namespace tally::bench {

using Option = CommandLine::Option;

Option& Option::required() {
  option_.required();
  return *this;
}

Option& Option::shows_default() {
  option_.capture_default_str();
  return *this;
}

Option& Option::range(int least, int most) {
  option_.check(CLI::Range(least, most));
  return *this;
}

Option& Option::positive() {
  option_.check(CLI::PositiveNumber);
  return *this;
}

Option& Option::one_of(const std::vector<std::string>& words) {
  option_.check(CLI::IsMember(words));
  return *this;
}

Option& Option::check(const std::function<std::string(const std::string&)>& objection,
                      const std::string& name) {
  option_.check(objection, name);
  return *this;
}

CommandLine::CommandLine(const std::string& what, const std::string& name)
    : app_(std::make_unique<CLI::App>(what, name)) {}

CommandLine::~CommandLine() = default;

template <class T>
Option CommandLine::option(const std::string& name, T& value, const std::string& says) {
  return Option(*app_->add_option(name, value, says));
}

template <class T>
Option CommandLine::option(const std::string& name, std::vector<T>& values, const std::string& says) {
  return Option(*app_->add_option(name, values, says)->delimiter(','));
}

template Option CommandLine::option(const std::string&, int&, const std::string&);
template Option CommandLine::option(const std::string&, std::uint16_t&, const std::string&);
template Option CommandLine::option(const std::string&, std::uint32_t&, const std::string&);
template Option CommandLine::option(const std::string&, std::uint64_t&, const std::string&);
template Option CommandLine::option(const std::string&, double&, const std::string&);
template Option CommandLine::option(const std::string&, std::string&, const std::string&);
template Option CommandLine::option(const std::string&, std::vector<std::uint16_t>&, const std::string&);
template Option CommandLine::option(const std::string&, std::vector<std::string>&, const std::string&);

void CommandLine::flag(const std::string& name, bool& value, const std::string& says) {
  app_->add_flag(name, value, says);
}

void CommandLine::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app_->exit(error));
  }
}

}  // namespace tally::bench
