#include "doctor/doctor.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "text/text.h"

namespace tally::doctor {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::uint64_t kHugepage = 2 * kMiB;
constexpr const char* kPool = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
constexpr std::uint64_t kFewFiles = 1024;

std::uint64_t hugepage_bytes(const Machine& machine) {
  std::uint64_t bytes = 0;
  for (const std::string& pool : machine.names_in("/sys/kernel/mm/hugepages")) {
    // hugepages-2048kB
    const std::string_view size = std::string_view(pool).substr(pool.find('-') + 1);
    std::uint64_t kib = 0;
    for (const char c : size) {
      if (c < '0' || c > '9') break;
      kib = kib * 10 + static_cast<std::uint64_t>(c - '0');
    }
    bytes += kib * 1024 * machine.number("/sys/kernel/mm/hugepages/" + pool + "/nr_hugepages").value_or(0);
  }
  return bytes;
}

void check_hugepages(const Machine& machine, const Wish& wish, std::vector<Finding>& findings) {
  if (wish.hugepages == false) return;
  const std::uint64_t wanted = wish.memory == 0 ? 512 * kMiB : wish.memory;
  const std::uint64_t there = hugepage_bytes(machine);
  const std::uint64_t pages = (wanted + kHugepage - 1) / kHugepage;
  if (there < wanted) {
    findings.push_back({wish.hugepages == true,
                        there == 0
                            ? "no hugepages are reserved"
                            : "hugepages of " + std::to_string(there / kMiB) + " MiB are reserved, of " +
                                  std::to_string(wanted / kMiB) + " MiB that dataplane.memory asks for",
                        wish.hugepages == true
                            ? "dataplane.hugepages is on, so that the box does not start."
                            : "The box takes ordinary memory: each frame costs look-ups of pages, and NICs "
                              "cannot use it at all.",
                        "echo " + std::to_string(pages) + " > " + kPool + "nr_hugepages"});
    return;
  }
  const std::vector<std::string> mounts = machine.lines("/proc/mounts");
  const bool mounted = std::ranges::any_of(
      mounts, [](const std::string& line) { return line.find(" hugetlbfs ") != std::string::npos; });
  if (!mounted)
    findings.push_back({wish.hugepages == true, "hugetlbfs is mounted nowhere",
                        "DPDK does not see the hugepages that are reserved.",
                        "mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages"});
}

bool takes_dpdk(std::string_view driver) {
  constexpr std::array<std::string_view, 3> kGivenAway{"vfio-pci", "uio_pci_generic", "igb_uio"};
  // Their drivers in DPDK work beside the kernel's.
  constexpr std::array<std::string_view, 3> kShared{"mlx5_core", "mlx4_core", "mana"};
  return std::ranges::find(kGivenAway, driver) != kGivenAway.end() ||
         std::ranges::find(kShared, driver) != kShared.end();
}

void check_nics(const Machine& machine, const Wish& wish, std::vector<Finding>& findings) {
  for (const std::string& address : wish.pci) {
    const std::string device = "/sys/bus/pci/devices/" + address;
    if (!machine.exists(device)) {
      findings.push_back({true, "there is no PCI device " + address, "A port of the box is on it.",
                          "lspci -D | grep Ethernet"});
      continue;
    }
    const std::string driver = machine.target(device + "/driver").value_or("");
    if (!takes_dpdk(driver))
      findings.push_back(
          {true,
           "NIC " + address +
               (driver.empty() ? " has no driver" : " is bound to the kernel's driver " + driver),
           "DPDK opens it when vfio-pci has it, and the kernel's interface of it is gone then.",
           "modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci " + address});
    const bool vfio = driver == "vfio-pci" || !takes_dpdk(driver);
    const auto unsafe = machine.line("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    if (vfio && machine.names_in("/sys/kernel/iommu_groups").empty() && unsafe.value_or("N") != "Y")
      findings.push_back({true, "there is no IOMMU for NIC " + address,
                          "vfio-pci refuses a NIC that nothing keeps away from memory that is not its own.",
                          "kernel command line: intel_iommu=on iommu=pt\n"
                          "echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode"});
  }
}

// What is unlimited, or as much as `needed`.
bool limit_is(const Machine& machine, std::string_view name, std::uint64_t needed) {
  for (const std::string& line : machine.lines("/proc/self/limits")) {
    if (!line.starts_with(name)) continue;
    const std::size_t at = line.find_first_not_of(' ', name.size());
    if (at == std::string::npos || line.compare(at, 9, "unlimited") == 0) return true;
    std::uint64_t soft = 0;
    for (std::size_t i = at; i < line.size() && line[i] >= '0' && line[i] <= '9'; ++i)
      soft = soft * 10 + static_cast<std::uint64_t>(line[i] - '0');
    return soft >= needed;
  }
  return true;
}

void check_limits(const Machine& machine, const Wish& wish, std::vector<Finding>& findings) {
  if (wish.af_xdp && !machine.af_xdp)
    findings.push_back({true, "this kernel has no sockets of AF_XDP", "A port of the box is a net_af_xdp.",
                        "write net_af_packet for the port, or take a kernel with CONFIG_XDP_SOCKETS"});
  // Root's processes have the right to lock memory whatever the limit.
  if (wish.af_xdp && !machine.raised && !limit_is(machine, "Max locked memory", UINT64_MAX))
    findings.push_back({true, "this process may lock little memory (ulimit -l)",
                        "af_xdp shares its packet buffers with the kernel, which locks them.",
                        "systemctl edit tallyd: [Service] LimitMEMLOCK=infinity"});
  if (!limit_is(machine, "Max open files", kFewFiles))
    findings.push_back({false, "this process may open fewer than " + std::to_string(kFewFiles) + " files",
                        "Ports, memif's workers and clients of tallyctl are files; those beyond get none.",
                        "systemctl edit tallyd: [Service] LimitNOFILE=4096"});
}

void check_memory(const Machine& machine, const Wish& wish, std::vector<Finding>& findings) {
  std::string path;
  for (const std::string& line : machine.lines("/proc/self/cgroup")) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  for (; path.size() > 1 && wish.memory != 0; path = path.substr(0, path.rfind('/'))) {
    const auto most = machine.number("/sys/fs/cgroup" + path + "/memory.max");  // else "max"
    if (!most || *most >= wish.memory) continue;
    findings.push_back({true,
                        "this container may use " + std::to_string(*most / kMiB) +
                            " MiB, and dataplane.memory is " + std::to_string(wish.memory / kMiB) + " MiB",
                        "The kernel kills the box when it has used them up.",
                        "raise the limit (docker update --memory, MemoryMax= of the unit)"});
    return;
  }
}

void check_socket_directory(const Machine& machine, const Wish& wish, std::vector<Finding>& findings) {
  const std::string& directory = wish.socket_directory;
  const auto mode = machine.mode(directory);
  if (!mode) {
    if (machine.raised && directory == "/run/tally") return;  // tallyd makes it
    findings.push_back(
        {false, "there is no directory " + directory,
         "A tallyd of " + machine.user + " cannot put its socket there, and tallyctl does not find it.",
         "install -d -o " + machine.user + " " + directory});
    return;
  }
  constexpr mode_t kSticky = 01000;
  constexpr mode_t kEverybody = 0002;
  if ((*mode & kEverybody) != 0 && (*mode & kSticky) == 0)
    findings.push_back({true, "everybody may replace sockets in " + directory,
                        "Who puts his own there is asked by tallyctl in place of the box.",
                        "chmod o-w " + directory});
  if (!machine.may_write(directory))
    findings.push_back({false, "directory " + directory + " is not writable for " + machine.user,
                        "A tallyd of this user has no socket there, and tallyctl does not find it.",
                        "chown " + machine.user + " " + directory});
}

}  // namespace

std::vector<Finding> examine(const Machine& machine, const Wish& wish) {
  std::vector<Finding> findings;
  check_hugepages(machine, wish, findings);
  examine_cpus(machine, wish, findings);
  check_nics(machine, wish, findings);
  check_limits(machine, wish, findings);
  check_memory(machine, wish, findings);
  check_socket_directory(machine, wish, findings);
  std::stable_partition(findings.begin(), findings.end(), [](const Finding& f) { return f.problem; });
  return findings;
}

Json to_json(const std::vector<Finding>& findings) {
  Json all = Json::array();
  for (const Finding& f : findings)
    all.push_back(
        {{"severity", f.problem ? "problem" : "slower"}, {"what", f.what}, {"why", f.why}, {"fix", f.fix}});
  return all;
}

namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kIndent = 4;

std::string text_of(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? text::cleaned(found->get<std::string>())
                                                     : std::string();
}

void add(std::string& out, const std::string& first, const std::string& words) {
  std::string lead = first;
  for (const std::string& line : text::wrapped(words, kColumns - first.size())) {
    out += lead + line + "\n";
    lead.assign(first.size(), ' ');
  }
}

const Json& findings_of(const Json& answer) {
  static const Json none = Json::array();
  const auto found = answer.is_object() ? answer.find("findings") : answer.end();
  return found != answer.end() && found->is_array() ? *found : none;
}

// A command must be taken as it is: it is broken with a backslash, as a shell reads it.
void add_command(std::string& out, const std::string& command) {
  const std::string indent(2 * kIndent, ' ');
  const auto lines = text::wrapped(command, kColumns - indent.size() - 2);
  for (std::size_t i = 0; i < lines.size(); ++i)
    out += indent + lines[i] + (i + 1 < lines.size() ? " \\\n" : "\n");
}

}  // namespace

bool any_problem(const Json& answer) {
  return std::ranges::any_of(findings_of(answer),
                             [](const Json& f) { return text_of(f, "severity") == "problem"; });
}

std::string to_text(const Json& answer) {
  std::string out;
  std::size_t problems = 0;
  std::size_t slower = 0;
  for (const Json& f : findings_of(answer)) {
    const std::string severity = text_of(f, "severity");
    ++(severity == "problem" ? problems : slower);
    add(out, severity + ": ", text_of(f, "what"));
    add(out, std::string(kIndent, ' '), text_of(f, "why"));
    // Its lines are cleaned one by one: a line break is none of the characters that a terminal must not see.
    const auto fix = f.find("fix");
    std::string commands = fix != f.end() && fix->is_string() ? fix->get<std::string>() : std::string();
    for (std::size_t at = 0; at < commands.size();) {
      const std::size_t end = std::min(commands.find('\n', at), commands.size());
      add_command(out, text::cleaned(commands.substr(at, end - at)));
      at = end + 1;
    }
    out += "\n";
  }
  if (problems + slower == 0) return "nothing to mend\n";
  return out + text::counted(problems, "problem") + ", " + std::to_string(slower) +
         (slower == 1 ? " thing" : " things") + " that cost speed\n";
}

}  // namespace tally::doctor
