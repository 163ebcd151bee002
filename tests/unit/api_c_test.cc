// The C face, used by a program that was compiled as C.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "api_loopback.h"
#include "tally/tally.h"

extern "C" {
int api_c_program(const char* transport, std::uint16_t rank);
int api_c_mistakes(const char* transport);
}

namespace tally::api_test {
namespace {

TEST(ApiC, AProgramInC) {
  LoopbackBox box;
  const std::string transport = box.worker(0).transport;
  on_all(2, [&](std::size_t rank) {
    EXPECT_EQ(api_c_program(transport.c_str(), static_cast<std::uint16_t>(rank)), 0)
        << "is the line of api_c_program.c; " << tally_last_error();
  });
}

// As C programs see sums without a straggler; who comes late is not here at all.
TEST(ApiC, PartialSumsAndTheMean) {
  LoopbackBox box({.workers = 2, .stragglers = {20 * kMillisecond, 1}});
  std::array<tally_worker*, 2> workers{};
  on_all(2, [&](std::size_t rank) {
    workers.at(rank) = join_in_c(box.worker(static_cast<std::uint16_t>(rank)));
  });
  tally_worker* const worker = workers[0];
  ASSERT_NE(worker, nullptr);
  std::vector<float> values(70, 3.0F);
  tally_reduce_options how = TALLY_REDUCE_OPTIONS_INIT;
  how.mean = 1;
  tally_operation* operation = nullptr;
  ASSERT_EQ(tally_allreduce_float_async(worker, values.data(), values.size(), &how, &operation), TALLY_OK);
  tally_operation_stats stats = TALLY_OPERATION_STATS_INIT;
  ASSERT_EQ(tally_wait(operation, TALLY_FOREVER, &stats), TALLY_OK) << tally_last_error();
  EXPECT_EQ(values, std::vector<float>(70, 3.0F));
  EXPECT_EQ(stats.incomplete, 1);
  EXPECT_EQ(stats.contributors, 0b01U);
  EXPECT_EQ(stats.incomplete_chunks, 2U);
  ASSERT_EQ(stats.partial_sums, 1U);
  tally_partial_sum partial{};
  ASSERT_EQ(tally_get_partial_sum(operation, 0, &partial), TALLY_OK);
  EXPECT_EQ(partial.first, 0U);
  EXPECT_EQ(partial.count, 70U);
  EXPECT_EQ(partial.contributors, 0b01U);
  EXPECT_EQ(tally_get_partial_sum(operation, 1, &partial), TALLY_INVALID_ARGUMENT);
  EXPECT_STREQ(tally_last_error(), "index: there are 1 partial sums, counted from 0");
  how.mean = 2;
  tally_operation* none = nullptr;
  EXPECT_EQ(tally_allreduce_float_async(worker, values.data(), 1, &how, &none), TALLY_INVALID_ARGUMENT);
  tally_operation_free(operation);
  for (tally_worker* each : workers) tally_worker_free(each);
}

TEST(ApiC, MistakesAreToldByCodeAndText) {
  LoopbackBox box;
  EXPECT_EQ(api_c_mistakes(box.worker(0).transport.c_str()), 0)
      << "is the line of api_c_program.c; " << tally_last_error();
}

TEST(ApiC, OptionsFromTheEnvironment) {
  LoopbackBox box({.workers = 1});
  setenv("TALLY_JOB", LoopbackBox::kJob, 1);
  setenv("TALLY_TOKEN", "secret", 1);
  setenv("TALLY_SWITCH", "10.255.0.1", 1);
  setenv("TALLY_PRIORITY", "7", 1);
  setenv("TALLY_TRANSPORT", box.worker(0).transport.c_str(), 1);
  tally_options options = TALLY_OPTIONS_INIT;
  ASSERT_EQ(tally_options_from_environment(&options), TALLY_OK) << tally_last_error();
  EXPECT_STREQ(options.job, "resnet");
  EXPECT_STREQ(options.debug, "");
  EXPECT_EQ(options.join_timeout_ms, 60'000U);
  EXPECT_EQ(options.priority, 7U);
  EXPECT_EQ(options.reserved, 0U);
  EXPECT_EQ(options.size, sizeof options);
  tally_worker* worker = nullptr;
  ASSERT_EQ(tally_join(nullptr, &worker), TALLY_OK) << tally_last_error();
  EXPECT_EQ(tally_barrier(worker), TALLY_OK);
  tally_worker_free(worker);
  setenv("TALLY_MTU", "x", 1);
  EXPECT_EQ(tally_join(nullptr, &worker), TALLY_INVALID_ARGUMENT);
  EXPECT_STREQ(tally_last_error(), "TALLY_MTU: 'x' is not a whole number in 616..9198");
  for (const char* name :
       {"TALLY_JOB", "TALLY_TOKEN", "TALLY_SWITCH", "TALLY_TRANSPORT", "TALLY_MTU", "TALLY_PRIORITY"})
    unsetenv(name);
}

TEST(ApiC, LastErrorBelongsToTheThread) {
  EXPECT_EQ(tally_barrier(nullptr), TALLY_INVALID_ARGUMENT);
  std::thread([] { EXPECT_STREQ(tally_last_error(), ""); }).join();
  EXPECT_STREQ(tally_last_error(), "worker is NULL");
}

TEST(ApiC, AbortReachesTheOtherRank) {
  LoopbackBox box;
  std::vector<tally_worker*> workers(2);
  const std::string transport = box.worker(0).transport;
  on_all(2, [&](std::size_t rank) {
    tally_options options = TALLY_OPTIONS_INIT;
    options.job = LoopbackBox::kJob;
    options.token = "secret";
    options.box = "10.255.0.1";
    options.transport = transport.c_str();
    options.rank = static_cast<std::uint16_t>(rank);
    options.world = 2;
    ASSERT_EQ(tally_join(&options, &workers[rank]), TALLY_OK) << tally_last_error();
  });
  tally_operation* pending = nullptr;
  ASSERT_EQ(tally_barrier_async(workers[0], nullptr, &pending), TALLY_OK);
  EXPECT_EQ(tally_wait(pending, 0, nullptr), TALLY_TIMEOUT);
  EXPECT_EQ(tally_done(pending), 0);
  EXPECT_EQ(tally_abort(workers[1], "out of disk"), TALLY_OK);
  EXPECT_EQ(tally_wait(pending, TALLY_FOREVER, nullptr), TALLY_ABORTED);
  EXPECT_NE(std::string(tally_last_error()).find("out of disk"), std::string::npos);
  tally_operation_free(pending);
  for (tally_worker* worker : workers) tally_worker_free(worker);
}

}  // namespace
}  // namespace tally::api_test
