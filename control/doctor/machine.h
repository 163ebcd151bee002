#pragma once
// A machine as the kernel shows it: files of /proc and /sys, and what is no file. Reads only what never
// blocks.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tally::doctor {

// Tests give another root, where the files are ordinary ones.
struct Machine {
  std::string root{};         // in front of every path; empty: the machine itself
  bool af_xdp = true;         // the kernel has sockets of this kind
  bool raised = true;         // this process is root
  std::string user = "root";  // its name

  // This process's own.
  [[nodiscard]] static Machine here();

  // The first line; nullopt: there is none.
  [[nodiscard]] std::optional<std::string> line(const std::string& path) const;
  [[nodiscard]] std::vector<std::string> lines(const std::string& path) const;  // empty: there is none
  [[nodiscard]] std::optional<std::uint64_t> number(const std::string& path) const;
  // What is in a list such as "0-3,8": in ascending order; empty also where there is none.
  [[nodiscard]] std::vector<std::uint16_t> cpus(const std::string& path) const;
  // The last part of what the link says; nullopt: it is no link.
  [[nodiscard]] std::optional<std::string> target(const std::string& link) const;
  [[nodiscard]] bool exists(const std::string& path) const;
  [[nodiscard]] std::optional<mode_t> mode(const std::string& path) const;
  [[nodiscard]] bool may_write(const std::string& directory) const;
  [[nodiscard]] std::vector<std::string> names_in(const std::string& directory) const;
  // What stands behind `name` in a file of lines "name: value"; empty: it does not.
  [[nodiscard]] std::string value_of(const std::string& path, const std::string& name) const;
};

// As above, of the list itself.
[[nodiscard]] std::vector<std::uint16_t> cpus_of(const std::string& list);

}  // namespace tally::doctor
