// What the doctor finds: a machine of ordinary files, good at first, then with one thing wrong.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/doctor.h"
#include "text/text.h"

namespace tally::doctor_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Doctor : testing::Test {
  Doctor() {
    write("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512");
    write("/proc/mounts", "proc /proc proc rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw 0 0");
    write("/sys/devices/system/cpu/online", "0-7");
    write("/sys/devices/system/cpu/isolated", "2-3");
    write("/proc/self/status", "Name:\ttallyd\nCpus_allowed_list:\t0-7");
    write("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu constant_tsc nonstop_tsc avx2");
    write("/proc/self/cgroup", "0::/system.slice/tallyd.service");
    write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc");
    write("/proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units\n"
          "Max open files            20000                20000                files\n"
          "Max locked memory         unlimited            unlimited            bytes");
    for (const char* const cpu : {"2", "3"}) {
      write(std::string("/sys/devices/system/cpu/cpu") + cpu + "/cpufreq/scaling_governor", "performance");
      write(std::string("/sys/devices/system/cpu/cpu") + cpu + "/topology/thread_siblings_list", cpu);
    }
    fs::create_directories(machine.root + "/run/tally");
    nic("vfio-pci");
    fs::create_directories(machine.root + "/sys/kernel/iommu_groups/0");
  }
  ~Doctor() override { fs::remove_all(machine.root); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(machine.root + path).parent_path());
    std::ofstream(machine.root + path) << text << "\n";
  }
  void nic(const std::string& driver) const {
    const std::string device = machine.root + "/sys/bus/pci/devices/0000:3b:00.0";
    fs::create_directories(device);
    fs::remove(device + "/driver");
    if (!driver.empty()) fs::create_symlink("../../../bus/pci/drivers/" + driver, device + "/driver");
  }
  std::vector<doctor::Finding> examine() const { return doctor::examine(machine, wish); }
  // That is all it finds.
  void finds(bool problem, const std::string& what, const std::string& fix) const {
    const auto found = examine();
    ASSERT_EQ(found.size(), 1U) << doctor::to_json(found).dump(1);
    EXPECT_EQ(found[0].problem, problem) << what;
    EXPECT_THAT(found[0].what, HasSubstr(what));
    EXPECT_THAT(found[0].fix, HasSubstr(fix));
    EXPECT_FALSE(found[0].why.empty());
  }

  doctor::Machine machine{.root = testing::TempDir() + "tally-doctor." + std::to_string(getpid())};
  doctor::Wish wish{
      .cores = {2, 3}, .memory = 512U << 20U, .hugepages = true, .af_xdp = true, .pci = {"0000:3b:00.0"}};
};

TEST_F(Doctor, FindsNothingOnAGoodMachine) { EXPECT_THAT(examine(), IsEmpty()); }

// Two CPUs, nothing isolated, no hugepages, cgroup v1, no governor, a limit on locked memory: make demo runs there.
TEST_F(Doctor, HasNoProblemWithAMachineThatRunsTheDemo) {
  fs::remove_all(machine.root);
  fs::create_directories(machine.root + "/run/tally");
  write("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0");
  write("/sys/devices/system/cpu/online", "0-1");
  write("/sys/devices/system/cpu/isolated", "");
  write("/proc/self/status", "Cpus_allowed_list:\t0-1");
  write("/proc/cpuinfo", "flags\t\t: fpu constant_tsc");
  write("/proc/self/cgroup", "4:memory:/a\n0::/");
  write("/proc/self/limits", "Max locked memory         8388608              8388608              bytes");
  wish = {.cores = {1}, .memory = 256U << 20U};
  for (const doctor::Finding& f : examine()) EXPECT_FALSE(f.problem) << f.what;
  EXPECT_FALSE(doctor::any_problem({{"findings", doctor::to_json(examine())}}));
  fs::remove_all(machine.root);  // nothing can be read at all
  for (const doctor::Finding& f : examine()) EXPECT_FALSE(f.problem) << f.what;
}

TEST_F(Doctor, CountsHugepages) {
  write("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "100");
  finds(true, "200 MiB are reserved, of 512 MiB", "echo 256 > /sys/kernel/mm/hugepages/");
  wish.hugepages.reset();
  finds(false, "200 MiB are reserved", "echo 256 >");
  wish.hugepages = false;
  EXPECT_THAT(examine(), IsEmpty());
  wish.hugepages = true;
  write("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "1");
  EXPECT_THAT(examine(), IsEmpty()) << "those of 1 GiB do as well";
  write("/proc/mounts", "proc /proc proc rw 0 0");
  finds(true, "hugetlbfs is mounted nowhere", "mount -t hugetlbfs");
}

TEST_F(Doctor, LooksAtTheCpusOfDataCores) {
  wish.cores = {2, 9};
  write("/sys/devices/system/cpu/isolated", "2-3,9");
  finds(true, "CPU 9 of dataplane.cores is not online", "cores: [7]");
  wish.cores = {2, 3};
  write("/proc/self/status", "Cpus_allowed_list:\t0-2");
  finds(true, "CPU 3 of dataplane.cores is not given to this process", "AllowedCPUs=2,3");
  write("/proc/self/status", "Cpus_allowed_list:\t0-7");
  write("/sys/devices/system/cpu/isolated", "2");
  finds(false, "CPU 3 of the data cores runs other programs", "isolcpus=2,3");
  write("/sys/devices/system/cpu/isolated", "2-3");
  write("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave");
  finds(false, "the governor of CPU 3 is powersave", "cpupower frequency-set -g performance");
  write("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance");
  write("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2-3");
  finds(false, "CPUs 2 and 3 are threads of one physical core", "lscpu");
}

TEST_F(Doctor, LooksAtClocks) {
  write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet");
  finds(false, "the clock source is hpet", "echo tsc >");
  write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock");
  EXPECT_THAT(examine(), IsEmpty());
  write("/proc/cpuinfo", "flags\t\t: fpu avx2");
  finds(false, "cycle counter changes its speed", "cpupower");
}

TEST_F(Doctor, LimitsOfContainersHoldOnEveryLevel) {
  write("/sys/fs/cgroup/system.slice/cpu.max", "150000 100000");
  write("/sys/fs/cgroup/system.slice/tallyd.service/cpu.max", "max 100000");
  finds(false, "this container may use 1.50 CPUs", "--cpus");
  write("/sys/fs/cgroup/system.slice/cpu.max", "300000 100000");
  EXPECT_THAT(examine(), IsEmpty());
  write("/sys/fs/cgroup/system.slice/tallyd.service/memory.max", "268435456");
  finds(true, "may use 256 MiB, and dataplane.memory is 512 MiB", "--memory");
  write("/sys/fs/cgroup/system.slice/tallyd.service/memory.max", "max");
  EXPECT_THAT(examine(), IsEmpty());
}

TEST_F(Doctor, LooksWhoHasTheNic) {
  nic("ixgbe");
  finds(true, "NIC 0000:3b:00.0 is bound to the kernel's driver ixgbe",
        "dpdk-devbind.py --bind=vfio-pci 0000:3b:00.0");
  nic("");
  finds(true, "NIC 0000:3b:00.0 has no driver", "vfio-pci");
  fs::remove_all(machine.root + "/sys/kernel/iommu_groups");
  nic("mlx5_core");
  EXPECT_THAT(examine(), IsEmpty());
  nic("vfio-pci");
  finds(true, "there is no IOMMU for NIC", "iommu=pt");
  write("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y");
  EXPECT_THAT(examine(), IsEmpty());
  wish.pci = {"0000:99:00.0"};
  finds(true, "there is no PCI device 0000:99:00.0", "lspci");
}

TEST_F(Doctor, LooksAtRights) {
  machine.af_xdp = false;
  finds(true, "no sockets of AF_XDP", "CONFIG_XDP_SOCKETS");
  machine.af_xdp = true;
  machine.raised = false;
  machine.user = "tally";
  write("/proc/self/limits",
        "Max open files            20000                20000                files\n"
        "Max locked memory         8388608              8388608              bytes");
  finds(true, "may lock little memory", "LimitMEMLOCK=infinity");
  wish.af_xdp = false;
  EXPECT_THAT(examine(), IsEmpty());
  write("/proc/self/limits", "Max open files            256                20000                files");
  finds(false, "fewer than 1024 files", "LimitNOFILE=");
  write("/proc/self/limits", "");
  fs::permissions(machine.root + "/run/tally", fs::perms::all);
  finds(true, "everybody may replace sockets in /run/tally", "chmod o-w /run/tally");
  fs::remove(machine.root + "/run/tally");
  finds(false, "there is no directory /run/tally", "install -d -o tally /run/tally");
  machine.raised = true;
  EXPECT_THAT(examine(), IsEmpty()) << "tallyd makes it";
}

TEST_F(Doctor, TellsProblemsFirstAndInEightyColumns) {
  write("/sys/devices/system/cpu/isolated", "");
  write("/sys/devices/system/clocksource/clocksource0/current_clocksource", std::string(200, 'x'));
  wish.cores = {2, 3, 4, 5, 6, 7, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78};
  nic("ixgbe");
  fs::remove_all(machine.root + "/sys/kernel/iommu_groups");
  const auto found = examine();
  EXPECT_TRUE(found.front().problem);
  EXPECT_FALSE(found.back().problem);
  const std::string text = doctor::to_text({{"findings", doctor::to_json(found)}});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(line.size() <= 80 || line.find("xxxx") != std::string::npos ||
                line.find("2,3,4") != std::string::npos)
        << line;
  EXPECT_THAT(text, HasSubstr("problem: NIC 0000:3b:00.0 is bound"));
  EXPECT_THAT(text, HasSubstr("\n        modprobe vfio-pci && dpdk-devbind.py"));
  EXPECT_TRUE(doctor::any_problem({{"findings", doctor::to_json(found)}}));
  EXPECT_EQ(doctor::to_text({{"findings", doctor::Json::array()}}), "nothing to mend\n");
  EXPECT_EQ(doctor::to_text({}), "nothing to mend\n");
}

TEST(DoctorLists, AreThoseOfTheKernel) {
  EXPECT_THAT(doctor::cpus_of("0-2,5,7-8"), ElementsAre(0, 1, 2, 5, 7, 8));
  EXPECT_THAT(doctor::cpus_of(""), IsEmpty());
  EXPECT_THAT(doctor::cpus_of("x"), IsEmpty());
  EXPECT_EQ(doctor::cpus_of("0-4294967295").size(), 8192U);
}

}  // namespace
}  // namespace tally::doctor_test
