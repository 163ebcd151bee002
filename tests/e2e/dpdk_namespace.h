#pragma once
// A network namespace of the test's own, and the kernel's side of the ports in it. It is entered before EAL
// starts, which is when the program starts: nothing outside sees the names used here, and all goes with the
// process. Where that is not allowed the program ends with exit code 77 and says why.

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tally::e2e {

// A veth pair: `name` is for a port of DPDK, its peer name + "-w" for a Wire. Both are up.
void make_veth(const std::string& name, std::uint16_t mtu);
// Runs `ip WORDS` and expects that it succeeds.
void ip(const std::string& words);

// The kernel's end: a raw socket.
class Wire {
 public:
  explicit Wire(const std::string& interface);
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  ~Wire();

  void send(std::span<const std::byte> frame) const;
  // Frames of the tests that arrive, until `wanted` are there or patience ends; each with its VLAN tag.
  [[nodiscard]] std::vector<std::vector<std::byte>> receive(
      std::size_t wanted, std::chrono::seconds patience = std::chrono::seconds(20)) const;

 private:
  int fd_ = -1;
};

// A frame of `bytes` bytes, 18 at least, for everybody; the bytes behind its type are number, number + 1, ...
// tagged: with a VLAN tag, within `bytes`.
[[nodiscard]] std::vector<std::byte> test_frame(std::size_t bytes, std::uint8_t number, bool tagged = false);
// Whether it is one of test_frame()'s.
[[nodiscard]] bool is_test_frame(std::span<const std::byte> frame);

}  // namespace tally::e2e
