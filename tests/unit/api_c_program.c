/* A program in C that uses every function of tally/tally.h; compiled as C99. Returns 0, or the line of what
 * went wrong. */
#include "tally/tally.h"

#include <string.h>

int api_c_program(const char* transport, uint16_t rank);
int api_c_mistakes(const char* transport);

#define EXPECT(condition)              \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (0)

static tally_options options_of(const char* transport, uint16_t rank) {
  tally_options options = TALLY_OPTIONS_INIT;
  options.job = "resnet";
  options.token = "secret";
  options.box = "10.255.0.1";
  options.transport = transport;
  options.rank = rank;
  options.world = 2;
  options.join_timeout_ms = 120000;
  return options;
}

static int priorities(tally_worker* worker) {
  static const struct {
    int32_t number;
    const char* text;
  } bad[] = {{-2, "priority: -2 is not in 0..254"},
             {255, "priority: 255 is not in 0..254"},
             {TALLY_PRIORITY_CLASS(-1), "priority: 999 is not in 0..254"},
             {TALLY_PRIORITY_CLASS(4), "priority: class 4 is not in 0..3"}};
  tally_reduce_options reduce = TALLY_REDUCE_OPTIONS_INIT;
  tally_operation* operation = NULL;
  size_t i;
  EXPECT(reduce.priority == TALLY_PRIORITY_OF_WORKER);
  for (i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    reduce.priority = bad[i].number;
    EXPECT(tally_barrier_async(worker, &reduce, &operation) == TALLY_INVALID_ARGUMENT && operation == NULL);
    EXPECT(strcmp(tally_last_error(), bad[i].text) == 0);
  }
  return 0;
}

static int sums(tally_worker* worker) {
  float values[100];
  int32_t integers[3] = {1, -2, 3};
  float many[800];
  float left[2] = {1.0F, 2.0F};
  float right[1] = {4.0F};
  int32_t one[1] = {1};
  tally_float_span floats[2];
  tally_int32_span list[2];
  tally_reduce_options reduce = TALLY_REDUCE_OPTIONS_INIT;
  tally_operation_stats stats = TALLY_OPERATION_STATS_INIT;
  tally_operation* operation = NULL;
  size_t i;

  for (i = 0; i < 100; ++i) values[i] = 0.5F;
  reduce.priority = 200;
  reduce.timeout_ms = 120000;
  EXPECT(tally_allreduce_float_async(worker, values, 100, &reduce, &operation) == TALLY_OK);
  EXPECT(tally_wait(operation, TALLY_FOREVER, &stats) == TALLY_OK);
  EXPECT(tally_done(operation) == 1);
  EXPECT(stats.elements == 100 && stats.chunks != 0 && stats.packets >= stats.chunks && stats.overflow == 0);
  for (i = 0; i < 100; ++i) EXPECT(values[i] == 1.0F);
  tally_operation_free(operation);

  reduce.wire_bits = 8;
  EXPECT(tally_allreduce_float_async(worker, values, 100, &reduce, &operation) == TALLY_INVALID_ARGUMENT);
  EXPECT(strstr(tally_last_error(), "wire_bits: 8 is not 0, 16, 32 or 384") != NULL);
  reduce.wire_bits = 16;
  reduce.non_finite = 2;
  EXPECT(tally_allreduce_float_async(worker, values, 100, &reduce, &operation) == TALLY_INVALID_ARGUMENT);
  EXPECT(strstr(tally_last_error(), "non_finite: 2 is not 0 (fail) or 1 (propagate)") != NULL);
  reduce.non_finite = TALLY_NON_FINITE_PROPAGATE;
  for (i = 0; i < 800; ++i) many[i] = i == 750 ? 2e38F : 0.5F;
  EXPECT(tally_allreduce_float_async(worker, many, 800, &reduce, &operation) == TALLY_OK);
  EXPECT(tally_wait(operation, TALLY_FOREVER, &stats) == TALLY_OK);
  EXPECT(stats.chunks == 14); /* 128 in a packet, and as many that prime them */
  for (i = 0; i < 800; ++i) EXPECT(i / 128 == 5 ? many[i] != many[i] : many[i] == 1.0F);
  tally_operation_free(operation);
  reduce.wire_bits = 0;
  reduce.non_finite = TALLY_NON_FINITE_FAIL;

  reduce.priority = TALLY_PRIORITY_CLASS(3);
  EXPECT(tally_allreduce_int32_async(worker, integers, 3, &reduce, &operation) == TALLY_OK);
  EXPECT(tally_wait(operation, TALLY_FOREVER, NULL) == TALLY_OK);
  EXPECT(integers[0] == 2 && integers[1] == -4 && integers[2] == 6);
  tally_operation_free(operation);

  floats[0].values = left;
  floats[0].count = 2;
  floats[1].values = right;
  floats[1].count = 1;
  EXPECT(tally_allreduce_float_list_async(worker, floats, 2, NULL, &operation) == TALLY_OK);
  EXPECT(tally_wait(operation, TALLY_FOREVER, &stats) == TALLY_OK);
  EXPECT(stats.elements == 3 && left[1] == 4.0F && right[0] == 8.0F);
  tally_operation_free(operation);

  list[0].values = one;
  list[0].count = 1;
  list[1].values = NULL;
  list[1].count = 0;
  EXPECT(tally_allreduce_int32_list_async(worker, list, 2, NULL, &operation) == TALLY_OK);
  tally_operation_free(operation); /* forgets it; it goes on */
  EXPECT(tally_barrier(worker) == TALLY_OK);
  EXPECT(one[0] == 2);
  EXPECT(tally_barrier_async(worker, NULL, &operation) == TALLY_OK);
  EXPECT(tally_wait(operation, TALLY_FOREVER, NULL) == TALLY_OK);
  tally_operation_free(operation);
  return 0;
}

int api_c_program(const char* transport, uint16_t rank) {
  const tally_options options = options_of(transport, rank);
  tally_membership membership = TALLY_MEMBERSHIP_INIT;
  tally_worker* worker = NULL;
  uint64_t value = 0;
  float late = 0.0F;
  tally_operation* operation = NULL;
  size_t i;
  int wrong;

  EXPECT(tally_join(&options, &worker) == TALLY_OK);
  EXPECT(tally_check(worker) == TALLY_OK);
  EXPECT(tally_get_membership(worker, &membership) == TALLY_OK);
  EXPECT(membership.rank == rank && membership.world == 2 && membership.generation != 0);
  wrong = sums(worker);
  if (wrong != 0) return wrong;
  wrong = priorities(worker);
  if (wrong != 0) return wrong;
  EXPECT(tally_statistic(worker, "results", &value) == TALLY_OK && value != 0);
  for (i = 0; tally_statistic_name(i) != NULL; ++i)
    EXPECT(tally_statistic(worker, tally_statistic_name(i), &value) == TALLY_OK);
  EXPECT(i == 29);
  EXPECT(tally_statistic(worker, "result", &value) == TALLY_INVALID_ARGUMENT);
  EXPECT(strstr(tally_last_error(), "'result' is not a statistic; there are contributions, ") != NULL);

  EXPECT(tally_leave(worker, 120000) == TALLY_OK);
  EXPECT(tally_check(worker) == TALLY_CLOSED);
  EXPECT(strstr(tally_last_error(), "left the job") != NULL);
  EXPECT(tally_allreduce_float_async(worker, &late, 1, NULL, &operation) == TALLY_CLOSED &&
         operation == NULL);
  EXPECT(tally_abort(worker, "too late to matter") == TALLY_OK);
  tally_worker_free(worker);
  return 0;
}

/* A newer program's struct: a member behind the ones that this library knows. */
struct newer_options {
  tally_options known;
  uint64_t later;
};

int api_c_mistakes(const char* transport) {
  struct newer_options newer;
  tally_options options = options_of(transport, 0);
  tally_worker* worker = (tally_worker*)&options;
  float value = 0.0F;
  tally_operation* operation = NULL;

  EXPECT(strcmp(tally_version(), TALLY_VERSION) == 0);
  EXPECT(strcmp(tally_code_name(TALLY_FELL_BEHIND), "TALLY_FELL_BEHIND") == 0);
  EXPECT(strcmp(tally_code_name(99), "TALLY_?") == 0);

  options.token = "guess";
  EXPECT(tally_join(&options, &worker) == TALLY_REFUSED && worker == NULL);
  EXPECT(strstr(tally_last_error(), "wrong token") != NULL);
  options.size = 8;
  EXPECT(tally_join(&options, &worker) == TALLY_INVALID_ARGUMENT);
  EXPECT(strstr(tally_last_error(), "tally_options: size is 8") != NULL);

  memset(&newer, 0, sizeof newer);
  newer.known = options_of(transport, 0);
  newer.known.size = sizeof newer;
  newer.known.token = "guess";
  EXPECT(tally_join(&newer.known, &worker) == TALLY_REFUSED); /* unknown, but not set */
  newer.later = 1;
  EXPECT(tally_join(&newer.known, &worker) == TALLY_INVALID_ARGUMENT);
  EXPECT(strstr(tally_last_error(), "does not know is set") != NULL);

  newer.known.size = offsetof(tally_options, priority); /* an older program's: the rest is not looked at */
  newer.known.priority = newer.known.reserved = 0xFFFFFFFF;
  EXPECT(tally_join(&newer.known, &worker) == TALLY_REFUSED);

  EXPECT(tally_join(NULL, NULL) == TALLY_INVALID_ARGUMENT);
  EXPECT(tally_allreduce_float_async(NULL, &value, 1, NULL, &operation) == TALLY_INVALID_ARGUMENT);
  EXPECT(tally_allreduce_float_async(NULL, NULL, 1, NULL, &operation) == TALLY_INVALID_ARGUMENT);
  EXPECT(strstr(tally_last_error(), "values is NULL, but count is 1") != NULL);
  options = options_of(transport, 0);
  options.priority = 255;
  EXPECT(tally_join(&options, &worker) == TALLY_INVALID_ARGUMENT);
  EXPECT(strcmp(tally_last_error(), "priority: 255 is not in 0..254") == 0);
  options.priority = 254;
  options.reserved = 1;
  EXPECT(tally_join(&options, &worker) == TALLY_INVALID_ARGUMENT);
  EXPECT(strstr(tally_last_error(), "reserved is not 0") != NULL);
  EXPECT(tally_barrier(NULL) == TALLY_INVALID_ARGUMENT);
  EXPECT(tally_wait(NULL, 0, NULL) == TALLY_INVALID_ARGUMENT);
  EXPECT(tally_abort(NULL, NULL) == TALLY_INVALID_ARGUMENT);
  EXPECT(tally_leave(NULL, 0) == TALLY_INVALID_ARGUMENT);
  tally_worker_free(NULL);
  tally_operation_free(NULL);
  return 0;
}
