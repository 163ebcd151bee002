// fleet: the etcd around which several boxes know one another, and how this one shows who it is.

#include <algorithm>
#include <string_view>

#include "config/checks.h"
#include "config/config_schema.h"
#include "fleet/records.h"
#include "text/text.h"

namespace tally::config {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";
constexpr std::size_t kMostEndpoints = 9;  // of etcd's servers; it advises against more than seven

std::string_view host_and_port(const std::string& endpoint) {
  return std::string_view(endpoint).substr(endpoint.starts_with(kHttps) ? kHttps.size() : kHttp.size());
}

// With the brackets of IPv6.
std::string_view host_of(const std::string& endpoint) {
  const std::string_view rest = host_and_port(endpoint);
  return rest.substr(0, rest.rfind(':'));
}

bool is_host(std::string_view host) {
  if (!host.starts_with('[')) return text::is_name(host) && host.size() <= 253;
  if (!host.ends_with(']')) return false;
  const std::string_view address = host.substr(1, host.size() - 2);
  return address.find(':') != std::string_view::npos && text::ip_address(address).has_value();
}

Parsed<std::string> parse_endpoint(const std::string& text) {
  constexpr const char* kHelp =
      "write one such as http://10.0.0.1:2379, https://etcd-1.site:2379 or \"https://[fd00::1]:2379\"";
  if (!text.starts_with(kHttp) && !text.starts_with(kHttps))
    return complain(shown(text) + " begins with neither http:// nor https://", kHelp);
  const std::string_view rest = host_and_port(text);
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || rest.ends_with(']'))
    return complain(shown(text) + " has no port", kHelp);
  if (const std::string port(rest.substr(colon + 1)); !text::whole_number(port, 1, 65'535))
    return complain(shown(port) + " is no port",
                    "write one from 1 to 65535, and nothing behind it; etcd's is 2379");
  if (const std::string host(rest.substr(0, colon)); !is_host(host))
    return complain(shown(host) + " is no host", kHelp);
  return text;
}

Parsed<std::string> parse_prefix(const std::string& text) {
  if (std::string why = fleet::objection_to_prefix(text); !why.empty())
    return complain(shown(text) + " is no prefix: " + why,
                    "write one such as /tally, without '/' at its end");
  return text;
}

Parsed<std::string> parse_file(const std::string& text) {
  if (!text.starts_with('/'))
    return complain(shown(text) + " is no absolute path",
                    "write none, or a path such as /etc/tally/etcd.crt");
  if (text.ends_with('/')) return complain(shown(text) + " names a directory", "name a file in it");
  return text;
}

Parsed<std::string> parse_user(const std::string& text) {
  if (text.empty()) return complain("the user is empty", "write none, or the name of a user of etcd");
  if (const std::string no = text::objection_to(text, 64); !no.empty())
    return complain(shown(text) + no, "write the name of a user of etcd");
  return text;
}

ValueType<std::string> endpoint() {
  return scalar_type<std::string>("an address such as http://10.0.0.1:2379", parse_endpoint,
                                  [](const std::string& text) { return yaml_text(text); });
}

// What never leaves this machine may be in clear.
bool is_here(const std::string& endpoint) {
  const std::string_view host = host_of(endpoint);
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

// Two keys of which none has a meaning alone.
void check_pair(Checking& c, const char* one, bool has_one, const char* other, bool has_other) {
  if (has_one == has_other) return;
  const std::string there = std::string("fleet.") + (has_one ? one : other);
  c.error(there, "this has no meaning without " + std::string(has_one ? other : one),
          "write both, or none of them");
}

}  // namespace

ValueType<std::optional<std::string>> file_or_none() {
  return or_word("none", scalar_type<std::string>("an absolute path", parse_file,
                                                  [](const std::string& path) { return yaml_text(path); }));
}

const Schema<FleetSection>& fleet_schema() {
  static const Schema<FleetSection> schema{
      value_key("endpoints", &FleetSection::endpoints, list_of(endpoint(), 0, kMostEndpoints, true),
                "Servers of one etcd 3.4 or later, by which boxes know one another (docs/fleet.md). Without "
                "any the box is in "
                "no fleet."),
      value_key("prefix", &FleetSection::prefix,
                scalar_type<std::string>("a path such as /tally", parse_prefix,
                                         [](const std::string& text) { return yaml_text(text); }),
                "All keys of the fleet begin with it and a '/'. Boxes of one prefix are a fleet."),
      value_key("id", &FleetSection::id, or_word("auto", name_up_to(fleet::kMostIdBytes)),
                "What the box is called in its fleet; no other box's. auto: the instance name."),
      value_key(
          "user", &FleetSection::user,
          or_word("none", scalar_type<std::string>("a name of at most 64 bytes", parse_user,
                                                   [](const std::string& text) { return yaml_text(text); })),
          "A user of etcd who may read and write the prefix, where etcd asks who one is."),
      value_key("password_file", &FleetSection::password_file, file_or_none(),
                "Holds the user's password; a line end behind it does not count. It is read whenever etcd "
                "asks, so it may be "
                "changed while tallyd runs."),
      value_key(
          "ca", &FleetSection::ca, file_or_none(),
          "Certificates, PEM, of which one must have signed etcd's. none: those that this system trusts."),
      value_key("cert", &FleetSection::cert, file_or_none(),
                "The box's own certificate, PEM, where etcd asks for one."),
      value_key("key", &FleetSection::key, file_or_none(), "The key of `cert`, PEM, without a password."),
  };
  return schema;
}

void check_fleet(Checking& c) {
  const FleetSection& fleet = c.config.fleet;
  if (!c.sound(
          {"fleet.endpoints", "fleet.user", "fleet.password_file", "fleet.ca", "fleet.cert", "fleet.key"}))
    return;
  for (std::size_t i = 0; i < fleet.endpoints.size(); ++i)
    if (!c.sound({"fleet.endpoints[" + std::to_string(i) + "]"})) return;
  if (fleet.endpoints.empty()) {
    if (fleet != FleetSection{})
      c.error("fleet", "the fleet has no endpoints",
              "write endpoints: [http://10.0.0.1:2379], or remove fleet");
    return;
  }
  check_pair(c, "user", fleet.user.has_value(), "password_file", fleet.password_file.has_value());
  check_pair(c, "cert", fleet.cert.has_value(), "key", fleet.key.has_value());
  const auto encrypted = [](const std::string& one) { return one.starts_with(kHttps); };
  const auto n = std::ranges::count_if(fleet.endpoints, encrypted);
  if (n != 0 && n != std::ssize(fleet.endpoints)) {
    c.error("fleet.endpoints", "some of the endpoints are https and some are not",
            "they are one etcd: write all of them alike");
    return;
  }
  if (n == 0) {
    for (const auto& [name, given] :
         {std::pair{"ca", fleet.ca.has_value()}, std::pair{"cert", fleet.cert.has_value()}})
      if (given)
        c.error(std::string("fleet.") + name, "no endpoint is https, so nobody would look at it",
                "write https://, or remove it");
    if (fleet.user && !std::ranges::all_of(fleet.endpoints, is_here))
      c.warning("fleet.password_file", "the password crosses the network in clear",
                "write https:// endpoints");
  }
}

}  // namespace tally::config
