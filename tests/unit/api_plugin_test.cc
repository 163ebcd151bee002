// How libtally finds libtally_dpdk.so.0. This program does not link libtally: it loads copies of it from a
// folder of its own, in which the test decides what lies beside it.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tally/tally.h"

namespace tally::api_test {
namespace {

using testing::HasSubstr;

class ApiPlugin : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tally-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The text of a join over dpdk by the library in the folder. Once per process: libraries stay.
  std::string join_error() {
    copy_library();
    void* const library = dlopen((folder_ / "libtally.so.0").c_str(), RTLD_NOW);
    if (library == nullptr) return dlerror();
    const auto join = reinterpret_cast<decltype(&tally_join)>(dlsym(library, "tally_join"));
    const auto error = reinterpret_cast<decltype(&tally_last_error)>(dlsym(library, "tally_last_error"));
    if (join == nullptr || error == nullptr) return "no symbols";
    tally_options options = TALLY_OPTIONS_INIT;
    options.job = "resnet";
    options.box = "10.0.0.1";
    options.transport = "dpdk:net_memif0,id=3";
    options.address = "10.0.0.11/24";
    tally_worker* worker = nullptr;
    return join(&options, &worker) == TALLY_SYSTEM ? error() : "another code";
  }

  std::filesystem::path folder_;

 private:
  // As installed: without the build's search path, which would find the real one.
  void copy_library() const {
    std::ifstream in(TALLY_LIBRARY, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const std::string path = TALLY_BUILD_RPATH;
    const std::size_t at = bytes.find(path);
    ASSERT_NE(at, std::string::npos) << "no " << path << " in " << TALLY_LIBRARY;
    bytes.replace(at, path.size(), std::string(path.size(), '/'));
    std::ofstream(folder_ / "libtally.so.0", std::ios::binary) << bytes;
  }
};

TEST_F(ApiPlugin, AbsentItIsSaidWhatToBuild) {
  const std::string text = join_error();
  EXPECT_THAT(text, HasSubstr("TALLY_TRANSPORT: transport dpdk needs libtally_dpdk.so.0, which cannot be "
                              "loaded from " +
                              folder_.string() + "/ nor from the loader's path"));
  EXPECT_THAT(text,
              HasSubstr("Build Tally with libdpdk-dev installed (make deps, make build) or install it"));
  EXPECT_THAT(text, HasSubstr("No such file or directory"));
}

TEST_F(ApiPlugin, BrokenTheLoaderIsQuoted) {
  std::ofstream(folder_ / "libtally_dpdk.so.0") << "not a library";
  EXPECT_THAT(join_error(), HasSubstr("file too short"));
}

TEST_F(ApiPlugin, BesideLibtallyItIsFoundAndMakesTheTransport) {
  std::filesystem::copy_file(TALLY_PLUGIN, folder_ / "libtally_dpdk.so.0");
  EXPECT_EQ(join_error(), "the plugin was asked for net_memif0,id=3 at 10.0.0.11/24 towards 10.0.0.1");
}

}  // namespace
}  // namespace tally::api_test
