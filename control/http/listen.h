#pragma once
// The socket at which HTTP is served over TCP. That over a Unix socket is made as the control interface's
// (daemon/control_socket.h).

#include <string>

#include "config/config.h"
#include "tally/error.h"
#include "tally/unique_fd.h"

namespace tally::http {

// For as many as come between two looks; who finds it full tries again.
inline constexpr int kBacklog = 512;

// "127.0.0.1:9464", "[::1]:9464", or the path of a Unix socket.
[[nodiscard]] std::string address_text(const config::HttpAddress& address);
// Nobody but programs of this machine gets there.
[[nodiscard]] bool is_of_this_machine(const config::HttpAddress& address);
// Listens, and does not block. An error says what to do. address: of TCP.
[[nodiscard]] Result<UniqueFd> listen_at(const config::HttpAddress& address);
// Why no socket could have the address here; empty: as far as is known, one can. Whether the port is free, only
// listen_at() finds out: the daemon that runs may have it.
[[nodiscard]] std::string objection_to_address(const config::HttpAddress& address);

}  // namespace tally::http
