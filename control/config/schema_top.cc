#include "schemas.h"

namespace tally {
namespace {

constexpr std::array<Choice<LogSection::Level>, 5> kLevels{{{"trace", LogSection::Level::kTrace},
                                                            {"debug", LogSection::Level::kDebug},
                                                            {"info", LogSection::Level::kInfo},
                                                            {"warning", LogSection::Level::kWarning},
                                                            {"error", LogSection::Level::kError}}};

ValueType<std::string> absolute_path() {
  return scalar_type<std::string>(
      "an absolute path",
      [](const std::string& text) -> Parsed<std::string> {
        if (!text.starts_with('/'))
          return complain(shown(text) + " is not an absolute path", "begin it with /");
        return text;
      },
      yaml_text);
}

ValueType<std::string> endpoint() {
  return scalar_type<std::string>("ADDRESS:PORT", parse_endpoint, yaml_text);
}

const Schema<ControlSection>& control_schema() {
  static const Schema<ControlSection> schema{
      value_key("socket", &ControlSection::socket, absolute_path(),
                "Where tallyctl finds the daemon; other paths: not in this version.",
                "/run/tally/INSTANCE.sock"),
      fixed_key<ControlSection>("http", std::string("127.0.0.1:9464"), endpoint(),
                                "Metrics and the live page."),
      fixed_key<ControlSection>("state", std::string("/var/lib/tally"), absolute_path(),
                                "Where the job table is kept over restarts."),
  };
  return schema;
}

const Schema<LogSection>& log_schema() {
  static const Schema<LogSection> schema{
      value_key("level", &LogSection::level, one_of(kLevels), "The least important messages to be printed."),
  };
  return schema;
}

}  // namespace

const Schema<Config>& config_schema() {
  static const Schema<Config> schema{
      value_key(
          "instance", &Config::instance, name_up_to(kMaxInstanceBytes),
          "Tells several daemons on one host apart: part of the names of their sockets and files, and of the "
          "box's MAC."),
      section_key("dataplane", &Config::dataplane, dataplane_schema()),
      [] {
        auto key = section_key("box", &Config::box, box_schema());
        key.required = true;
        return key;
      }(),
      [] {
        auto key = list_key("ports", &Config::ports, port_schema());
        key.required = true;
        return key;
      }(),
      section_key("control", &Config::control, control_schema()),
      section_key("log", &Config::log, log_schema()),
      list_key("jobs", &Config::jobs, job_schema()),
      later_key<Config>("admit", "A template for jobs that are not declared."),
  };
  return schema;
}

std::vector<ReferenceRow> reference_rows() {
  std::vector<ReferenceRow> rows;
  describe_section(config_schema(), "", rows);
  return rows;
}

}  // namespace tally
