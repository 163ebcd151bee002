#pragma once
// The text of a virtual device, "net_tap0,iface=tap0,...", taken apart, and what is wrong with a word of it.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally {

// What is wrong with a port and what to do about it. about: the argument of the device, or the port's own key
// "mtu" or "queues"; empty: the device as a whole.
struct DeviceComplaint {
  std::string about;
  std::string message;
  std::string help;
  bool operator==(const DeviceComplaint&) const = default;
};

class DeviceWords {
 public:
  explicit DeviceWords(std::string_view text);

  [[nodiscard]] const std::string* find(std::string_view key) const noexcept;
  [[nodiscard]] bool has(std::string_view key) const noexcept { return find(key) != nullptr; }
  // The number that `key` has, or `otherwise` when it is absent. Complains of what is no whole number of
  // [lowest, highest], and returns nothing then.
  [[nodiscard]] std::optional<std::uint32_t> number(std::string_view key, std::uint32_t lowest,
                                                    std::uint32_t highest, std::uint32_t otherwise,
                                                    std::vector<DeviceComplaint>& complaints) const;
  // The name of a network interface, empty when absent. Complains of a name that the kernel cannot have.
  [[nodiscard]] std::string interface(std::string_view key, std::vector<DeviceComplaint>& complaints) const;
  // The argument goes to the driver as well.
  void add(std::string_view key, std::string_view value);
  // What DPDK takes.
  [[nodiscard]] std::string text() const;

 private:
  struct Word {
    std::string key;
    std::string value;
  };
  std::string name_;
  std::vector<Word> words_;
};

}  // namespace tally
