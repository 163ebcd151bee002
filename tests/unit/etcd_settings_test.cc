// The password of etcd's user, as people write it.

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "etcd/settings.h"

namespace tally::etcd {
namespace {

TEST(EtcdSettings, APasswordIsTheTextOfItsFile) {
  const auto path =
      (std::filesystem::temp_directory_path() / ("tally-etcd-password." + std::to_string(::getpid())))
          .string();
  const auto read = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return read_password(path);
  };
  EXPECT_EQ(read("secret\n").value(), "secret");
  EXPECT_EQ(read("secret\r\n").value(), "secret");
  EXPECT_EQ(read(" two words ").value(), " two words ");
  EXPECT_EQ(read("\n").error().what, "'" + path + "' is empty; put etcd's password in it");
  EXPECT_FALSE(read("two\nlines\n"));
  EXPECT_FALSE(read(std::string(1025, 'x')));
  EXPECT_EQ(read(std::string(1024, 'x')).value().size(), 1024U);
  std::filesystem::remove(path);
  EXPECT_EQ(read_password(path).error().what, "cannot read '" + path + "': No such file or directory");
}

}  // namespace
}  // namespace tally::etcd
