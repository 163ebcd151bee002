// control: the socket of the control interface, and HTTP.

#include <array>

#include "config/config_schema.h"
#include "config/load_config.h"
#include "text/text.h"

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

Parsed<std::string> parse_http(const std::string& text) {
  if (text == "none") return text;
  auto address = parse_http_address(text);
  if (!address) return tl::unexpected<Complaint>(std::move(address.error()));
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
      value_key("http", &ControlSection::http,
                scalar_type<std::string>("none, ADDRESS:PORT or unix:PATH", parse_http,
                                         [](const std::string& where) { return yaml_text(where); }),
                "Where HTTP is served, for browsers and Prometheus (docs/http.md): everything but tokens is "
                "shown to whoever "
                "reaches it, and nothing can be changed. `127.0.0.1:9464` is for this machine alone; a Unix "
                "socket has the "
                "mode and group of `control.access` and `control.group`. It must be possible, or tallyd does "
                "not start."),
  };
  return schema;
}

Parsed<HttpAddress> parse_http_address(const std::string& text) {
  constexpr std::string_view kUnix = "unix:";
  constexpr const char* kHelp =
      "write none, an address and a port such as 127.0.0.1:9464, or unix:/run/tally/rack1-http.sock";
  if (text.starts_with(kUnix)) {
    HttpAddress at{.path = text.substr(kUnix.size())};
    if (!at.path.starts_with('/')) return complain(shown(at.path) + " is no absolute path", kHelp);
    if (auto path = parse_socket(at.path); !path) return tl::unexpected<Complaint>(std::move(path.error()));
    return at;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return complain(shown(text) + " is no address with a port", kHelp);
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto address = text::ip_address(host);
  if (!address || bracketed != (host.find(':') != std::string::npos))
    return complain(
        shown(host) + " is no IP address" + (address ? " as it is written before a port" : ""),
        "write 127.0.0.1:9464 for this machine alone, or an address of its own; IPv6 in brackets and "
        "quotes: \"[::1]:9464\"");
  const auto port = text::whole_number(text.substr(colon + 1), 1, 65'535);
  if (!port) return complain(shown(text.substr(colon + 1)) + " is no port", "write one from 1 to 65535");
  return HttpAddress{.address = *address, .port = static_cast<std::uint16_t>(*port)};
}

std::optional<HttpAddress> http_address(const Config& config) {
  const auto address = parse_http_address(config.control.http);
  return address ? std::optional<HttpAddress>(*address) : std::nullopt;
}

std::string control_socket_path(const Config& config) {
  const std::string& socket = config.control.socket;
  if (socket == "none") return {};
  return socket == "auto" ? "/run/tally/" + config.instance + ".sock" : socket;
}

}  // namespace tally::config
