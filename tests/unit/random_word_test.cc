// Random words, against a kernel that answers as the test says: getrandom() is replaced in this program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>

#include "random/random.h"

namespace {

// What the kernel answers: the bytes it gives, or none and an errno.
struct Answer {
  std::string bytes;
  int error = 0;
};
std::deque<Answer> answers;

}  // namespace

extern "C" ssize_t getrandom(void* to, std::size_t room, unsigned /*flags*/) noexcept {
  if (answers.empty()) ADD_FAILURE() << "asked for more than it needs";
  const Answer answer = answers.empty() ? Answer{.bytes = std::string(room, 'x')} : answers.front();
  if (!answers.empty()) answers.pop_front();
  errno = answer.error;
  if (answer.error != 0) return -1;
  EXPECT_LE(answer.bytes.size(), room);
  std::memcpy(to, answer.bytes.data(), answer.bytes.size());
  return static_cast<ssize_t>(answer.bytes.size());
}

namespace tally {
namespace {

std::uint64_t word_of(const char* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

TEST(RandomWord, IsWhatTheKernelGives) {
  answers = {{"abcdefgh"}, {"ABCDEFGH"}};
  EXPECT_EQ(random::word(), word_of("abcdefgh"));
  EXPECT_EQ(random::word(), word_of("ABCDEFGH"));
}

TEST(RandomWord, SignalsAndShortReadsCostNoByte) {
  answers = {{{}, EINTR}, {"abc"}, {{}, EINTR}, {{}, EINTR}, {"d"}, {"efgh"}};
  EXPECT_EQ(random::word(), word_of("abcdefgh"));
  EXPECT_TRUE(answers.empty());
}

TEST(RandomWord, IsNeverZero) {
  answers = {{std::string(8, '\0')}, {std::string(8, '\0')}, {"abcdefgh"}};
  EXPECT_EQ(random::word(), word_of("abcdefgh"));
  EXPECT_TRUE(answers.empty());
}

TEST(RandomWordDeathTest, AKernelThatRefusesEndsTheProgram) {
  answers = {{"abcd"}, {{}, ENOSYS}};
  EXPECT_EXIT(static_cast<void>(random::word()), testing::KilledBySignal(SIGABRT),
              "tally: the kernel gives no random numbers: getrandom: Function not implemented");
}

}  // namespace
}  // namespace tally
