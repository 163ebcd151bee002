// The chain of publications: none skipped, in order, and freed when every core is past it.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "io/publication_chain.h"
#include "jobs.h"

namespace tally {
namespace {

class Chain : public testing::Test {
 protected:
  std::weak_ptr<const jobs::JobTable> publish(std::uint64_t version) {
    auto table = std::make_shared<const jobs::JobTable>();
    std::weak_ptr<const jobs::JobTable> alive = table;
    chain_.publish({.version = version, .table = std::move(table)});
    return alive;
  }
  // As a core does between bursts. Returns the version executed; 0: there is no other.
  static std::uint64_t follow(io::PublicationReader& reader) {
    const io::PublicationNode* next = reader.at->next.load(std::memory_order_acquire);
    if (next == nullptr) return 0;
    reader.pass_to(next);
    return next->publication.version;
  }
  io::PublicationReader one_;
  io::PublicationReader two_;
  io::PublicationChain chain_{test_box(), {&one_, &two_}};
};

TEST_F(Chain, BeginsWithAnEmptyTable) {
  ASSERT_NE(one_.at, nullptr);
  EXPECT_EQ(one_.at->publication.table->find(JobId{1}), nullptr);
  EXPECT_EQ(chain_.adopted(), 0U);
  EXPECT_EQ(follow(one_), 0U);
}

TEST_F(Chain, EveryCoreExecutesEveryPublicationInOrder) {
  for (const std::uint64_t version : {3U, 4U, 9U}) publish(version);
  for (io::PublicationReader* core : {&one_, &two_}) {
    EXPECT_EQ(follow(*core), 3U);
    EXPECT_EQ(follow(*core), 4U);
    EXPECT_EQ(follow(*core), 9U);
    EXPECT_EQ(follow(*core), 0U);
  }
  EXPECT_EQ(chain_.adopted(), 9U);
}

TEST_F(Chain, ATableLivesUntilTheLastCoreUsesALaterOne) {
  const auto first = publish(1);
  const auto second = publish(2);
  while (follow(one_) != 0) {
  }
  EXPECT_EQ(follow(two_), 1U);
  EXPECT_EQ(chain_.adopted(), 1U);
  publish(3);
  EXPECT_FALSE(first.expired()) << "core two uses it";
  EXPECT_EQ(follow(two_), 2U);
  publish(4);
  EXPECT_TRUE(first.expired());
  EXPECT_FALSE(second.expired());
}

// It has the version and the table of the node before it, and a place of its own in the chain.
TEST_F(Chain, OtherFaultsAreANodeThatChangesNoTable) {
  const auto table = publish(1);
  std::vector<dpdk::PortWays> ways(2);
  ways[1].port = PortIndex{7};
  chain_.exchange(std::move(ways));
  chain_.exchange(std::vector<dpdk::PortWays>(2));
  EXPECT_EQ(follow(one_), 1U);
  EXPECT_EQ(follow(one_), 1U);
  EXPECT_EQ(one_.at->ways.at(1).port, PortIndex{7});
  EXPECT_EQ(one_.at->publication.table, table.lock());
  EXPECT_EQ(follow(one_), 1U);
  EXPECT_EQ(follow(one_), 0U);
  EXPECT_EQ(chain_.adopted(), 0U) << "core two";
  while (follow(two_) != 0) {
  }
  EXPECT_EQ(chain_.adopted(), 1U);
  publish(2);
  EXPECT_FALSE(table.expired()) << "the last node with it is in use";
  while (follow(one_) + follow(two_) != 0) {
  }
  publish(3);
  EXPECT_TRUE(table.expired());
}

TEST_F(Chain, CarriesTheHeadersOfItsJobs) {
  const auto job = std::make_shared<const jobs::NativeJob>(make_job({.id = 5, .world = 3}));
  chain_.publish({.version = 1, .table = jobs::JobTable().with(JobId{5}, job)});
  ASSERT_EQ(follow(one_), 1U);
  EXPECT_EQ(one_.at->headers.of(*job).members[2].port, job->ranks[2].binding.port);
  EXPECT_EQ(one_.at->headers.of(*job).members[2].header.bytes(), 42U);
}

}  // namespace
}  // namespace tally
