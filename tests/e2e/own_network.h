#pragma once
// A network namespace for this process, with nothing in it but the loopback interface.

#include <string>

namespace tally::e2e {

// Before any thread is made. Empty, or why it cannot be.
[[nodiscard]] std::string enter_own_network();
// What enter_own_network() said to main().
[[nodiscard]] const std::string& why_no_own_network();
// Of the loopback interface; false if it cannot be set.
bool set_loopback_mtu(int mtu);
// Up or down.
bool set_loopback(bool up);

}  // namespace tally::e2e
