// control: the socket of the control interface.

#include <array>

#include "config/config_schema.h"
#include "config/load_config.h"

namespace tally::config {
namespace {

using Access = ControlSection::Access;

constexpr std::array<Choice<Access>, 3> kAccess{
    {{"owner", Access::kOwner}, {"group", Access::kGroup}, {"everybody", Access::kEverybody}}};

Parsed<std::string> parse_socket(const std::string& text) {
  if (text == "auto" || text == "none") return text;
  if (!text.starts_with('/'))
    return complain(shown(text) + " is no absolute path",
                    "write auto, none, or a path such as /run/tally/rack1.sock");
  if (text.ends_with('/')) return complain(shown(text) + " names a directory", "name a file in it");
  if (text.size() > kMaxSocketPath) {
    return complain("the path has " + std::to_string(text.size()) + " bytes; a socket's has at most " +
                        std::to_string(kMaxSocketPath),
                    "shorten it");
  }
  return text;
}

Parsed<std::string> parse_state(const std::string& text) {
  if (text == "auto" || text == "none" || text.starts_with('/')) return text;
  return complain(shown(text) + " is no absolute path", "write auto, none, or a path such as /var/lib/tally");
}

}  // namespace

const Schema<ControlSection>& control_schema() {
  static const Schema<ControlSection> schema{
      value_key(
          "socket", &ControlSection::socket,
          scalar_type<std::string>("auto, none or an absolute path", parse_socket,
                                   [](const std::string& path) { return yaml_text(path); }),
          "Where tallyctl finds the daemon. auto: `/run/tally/INSTANCE.sock`, and a warning if it cannot be "
          "made there; a path that is written must be possible, or tallyd does not start."),
      value_key(
          "access", &ControlSection::access, one_of(kAccess),
          "Who may open the socket, and so read everything but tokens: the daemon's user (and root), also "
          "the socket's group, or everybody."),
      value_key(
          "group", &ControlSection::group, or_word("none", name_up_to(32)),
          "The group of the socket. Its members may change things, as root and the daemon's user may. none: "
          "the daemon's own group, whose other members may read. tallyd must be in the group, or have "
          "CAP_CHOWN, to give it the socket."),
      value_key(
          "state", &ControlSection::state,
          scalar_type<std::string>("auto, none or an absolute path", parse_state,
                                   [](const std::string& path) { return yaml_text(path); }),
          "The folder where the jobs made by `tallyctl job add` are kept over restarts, kill -9 and power "
          "loss, in INSTANCE.jobs.json. auto: the one that systemd made for the service "
          "(StateDirectory), if it did. none: such jobs are gone when tallyd ends, and tallyctl says so. A "
          "path that is written must be a folder in which tallyd may write, or it does not start."),
      refused_key<ControlSection>("http", "tallyd has no HTTP"),
  };
  return schema;
}

std::string control_socket_path(const Config& config) {
  const std::string& socket = config.control.socket;
  if (socket == "none") return {};
  return socket == "auto" ? "/run/tally/" + config.instance + ".sock" : socket;
}

}  // namespace tally::config
