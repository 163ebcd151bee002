#ifndef TALLY_TALLY_H
#define TALLY_TALLY_H
/*
 * libtally in C: join a job, sum arrays with the other ranks. The same library and the same rules as
 * tally/worker.h, which says more about them.
 *
 *   tally_worker* worker;
 *   tally_operation* sum;
 *   if (tally_join(NULL, &worker) != TALLY_OK) return fail(tally_last_error());   // from the environment
 *   if (tally_allreduce_float_async(worker, gradient, count, NULL, &sum) != TALLY_OK) ...
 *   if (tally_wait(sum, TALLY_FOREVER, NULL) != TALLY_OK) ...
 *   tally_operation_free(sum);
 *   tally_leave(worker, 60000);
 *   tally_worker_free(worker);
 *
 * Errors     every function that can fail returns a tally_code; tally_last_error() has the sentence.
 * Ownership  the caller frees what a function gave it through a pointer: each operation with
 *            tally_operation_free (also before it is done: that forgets it, it goes on), each worker with
 *            tally_worker_free, operations before or after. Strings that are passed in are copied. Strings
 *            that are returned belong to the library.
 * Buffers    stay the caller's: alive and untouched until their operation is done.
 * Threads    any thread may call any function, also with the same worker or operation; only the two free
 *            functions need that nobody else uses the object any more.
 * fork       in the child every call with a parent's object returns TALLY_CLOSED; it may join for itself.
 * Memory     running out of it ends the process.
 */

#include <stddef.h>
#include <stdint.h>

/* C's own naming. NOLINTBEGIN(readability-identifier-naming) */
#ifdef __cplusplus
extern "C" {
#endif

typedef struct tally_worker tally_worker;
typedef struct tally_operation tally_operation;

/* The numbers are fixed; new ones may be added. */
typedef enum tally_code {
  TALLY_OK = 0,
  TALLY_INVALID_ARGUMENT = 1, /* the caller's value is out of range */
  TALLY_QUANTISE = 2,         /* NaN, Inf or a magnitude above 2^126 in a float array */
  TALLY_ABORTED = 3,          /* the job was aborted; the text names rank and reason */
  TALLY_REFUSED = 4,          /* the box refused the join; the text is the box's */
  TALLY_UNREACHABLE = 5,      /* no answer from the box */
  TALLY_TIMEOUT = 6,          /* the text names the missing ranks */
  TALLY_CORRUPT = 7,          /* three results of one chunk failed their end-to-end sums */
  TALLY_FELL_BEHIND = 8,      /* a chunk older than every peer's history */
  TALLY_CLOSED = 9,           /* the worker left, failed or was aborted before */
  TALLY_SYSTEM = 10           /* a system call failed */
} tally_code;

/* Why the last call on this thread that failed did so; "" before the first. Valid until the next call that
 * fails on this thread. */
const char* tally_last_error(void);
/* "TALLY_TIMEOUT"; "TALLY_?" for a number that is none. */
const char* tally_code_name(int code);
/* "0.1.0" */
const char* tally_version(void);

/* As tally::WorkerOptions. Always begin with TALLY_OPTIONS_INIT or tally_options_from_environment: later
 * versions add members at the end, and `size` tells the library which version the program was compiled
 * with. NULL strings are empty. */
typedef struct tally_options {
  size_t size;              /* sizeof(tally_options) */
  const char* job;          /* 1..64 bytes */
  const char* token;        /* 0..64 bytes */
  const char* box;          /* IP address */
  const char* transport;    /* udp or dpdk:DEVICE; NULL: udp */
  const char* address;      /* of this worker, 10.0.0.11/24; NULL with udp */
  const char* debug;        /* "", "INFO" or "TRACE" */
  uint16_t rank;            /* below world */
  uint16_t world;           /* 1..4096; more than 64 only in a job of racks */
  uint16_t elements;        /* most values in a packet; 0: what the MTU carries */
  uint16_t mtu;             /* of the path to the box */
  int32_t poll;             /* 1: never sleep */
  uint32_t join_timeout_ms; /* for all ranks to arrive */
  uint32_t priority;        /* 0..254; its class, priority / 64, is that of operations that choose none */
  uint32_t reserved;        /* 0 */
} tally_options;

#define TALLY_OPTIONS_INIT \
  { sizeof(tally_options), NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0, 1500, 0, 60000, 254, 0 }

/* Fills `options`, whose size must be set, from TALLY_CONFIG and the environment. The strings belong to the
 * library and are valid until the next call of this function on this thread. */
tally_code tally_options_from_environment(tally_options* options);

/* Returns when all ranks have joined. options NULL: from the environment. *worker is NULL after an error. */
tally_code tally_join(const tally_options* options, tally_worker** worker);
/* Aborts the job unless the worker left or is closed. NULL is allowed. */
void tally_worker_free(tally_worker* worker);

/* How urgent an operation is; tally/priority.h says what for. Any of these, or a value 0..254 that every
 * packet carries. Ranks may choose differently without harm, and jobs with slots of their own ignore it. */
#define TALLY_PRIORITY_OF_WORKER (-1)        /* the class of tally_options.priority */
#define TALLY_PRIORITY_CLASS(c) (1000 + (c)) /* 0 gives way to all, 3 to none */

/* Set size before the call; members that the library does not know stay as they are. */
typedef struct tally_operation_stats {
  size_t size; /* sizeof(tally_operation_stats) */
  uint64_t elements;
  uint64_t chunks;          /* packets' worth, priming ones included */
  uint64_t packets;         /* sent */
  uint64_t retransmissions; /* of these, sent again */
  uint64_t duration_ns;
  int32_t overflow; /* 1: some sum may have left int32, or a late rank's values were clipped */
  /* Of a job with stragglers; the same at all ranks. */
  int32_t incomplete;         /* 1: some sums lack ranks */
  uint64_t contributors;      /* bitmap of the ranks that are in every sum */
  uint64_t incomplete_chunks; /* packets' worth of values whose sums lack ranks */
  uint64_t partial_sums;      /* how many stretches of elements these are: tally_get_partial_sum */
} tally_operation_stats;

#define TALLY_OPERATION_STATS_INIT \
  { sizeof(tally_operation_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Called once for an operation, on the worker's own thread, before tally_done says 1 and tally_wait returns.
 * stats: of an operation that ended with TALLY_OK, until it returns; else NULL, and tally_last_error() has the
 * sentence. Must not block; may issue operations. */
typedef void (*tally_done_callback)(void* user, tally_code code, const tally_operation_stats* stats);

/* Of one operation. NULL where one may be passed: the worker's priority, no timeout. */
typedef struct tally_reduce_options {
  size_t size;         /* sizeof(tally_reduce_options) */
  int32_t priority;    /* as above; the box lowers what is above the job's maximum */
  uint32_t timeout_ms; /* the operation, and with it the job, fails when it takes longer; 0: never */
  /* With floats only, and the same at all ranks but for the priority: */
  uint32_t mean;            /* 1: each sum divided by the number of ranks in it */
  uint32_t wire_bits;       /* of the integers that stand for a float: 0, 16, 32 or 384, see below */
  uint32_t non_finite;      /* what NaN, Inf and, but for exact sums, magnitudes above 2^126 do */
  uint32_t reserved;        /* 0 */
  tally_done_callback done; /* NULL: nobody is called. Not called where the function that issues fails */
  void* user;               /* for done */
} tally_reduce_options;

#define TALLY_REDUCE_OPTIONS_INIT \
  { sizeof(tally_reduce_options), TALLY_PRIORITY_OF_WORKER, 0, 0, 0, 0, 0, NULL, NULL }

/* Half the packets, and coarse. */
#define TALLY_WIRE_INT16 16
#define TALLY_WIRE_INT32 32
/* Twelve times the packets, and one round trip less; the sum is exact and rounded once. */
#define TALLY_WIRE_EXACT 384
/* TALLY_WIRE_EXACT where that is one packet, else TALLY_WIRE_INT32. So what depends on it (rounding, magnitudes
 * above 2^126, how many elements a NaN of one makes NaN of) depends on the size; choose one if that matters. */
#define TALLY_WIRE_SHORTEST 0

/* The operation fails at every rank, by name. */
#define TALLY_NON_FINITE_FAIL 0
/* Every rank gets NaN for the packet's worth of values that one of them lies in. */
#define TALLY_NON_FINITE_PROPAGATE 1

typedef struct tally_float_span {
  float* values;
  size_t count;
} tally_float_span;
typedef struct tally_int32_span {
  int32_t* values;
  size_t count;
} tally_int32_span;

/* Sums element by element over all ranks, in place. All ranks issue the same operations in the same order.
 * TALLY_OK means issued: what becomes of it, tally_wait says. A list is one operation over the concatenation
 * of its spans; the list itself may go when the call has returned. */
tally_code tally_allreduce_float_async(tally_worker* worker, float* values, size_t count,
                                       const tally_reduce_options* options, tally_operation** operation);
tally_code tally_allreduce_int32_async(tally_worker* worker, int32_t* values, size_t count,
                                       const tally_reduce_options* options, tally_operation** operation);
tally_code tally_allreduce_float_list_async(tally_worker* worker, const tally_float_span* spans, size_t count,
                                            const tally_reduce_options* options, tally_operation** operation);
tally_code tally_allreduce_int32_list_async(tally_worker* worker, const tally_int32_span* spans, size_t count,
                                            const tally_reduce_options* options, tally_operation** operation);
/* The same for arrays of any type, in place or not. `type` is one of these. */
typedef enum tally_type {
  TALLY_FLOAT32 = 0,
  TALLY_INT32 = 1,
  TALLY_FLOAT16 = 2, /* IEEE 754 binary16; like bfloat16 it is summed as floats are and rounded once */
  TALLY_BFLOAT16 = 3
} tally_type;
typedef struct tally_buffer {
  const void* in; /* values, aligned to an element; NULL: zeros, which cost a header for a packet */
  void* out;      /* `in` itself, or memory that does not overlap it; NULL: the sums go nowhere */
  size_t count;   /* elements */
} tally_buffer;
tally_code tally_allreduce_async(tally_worker* worker, int32_t type, const tally_buffer* buffers,
                                 size_t count, const tally_reduce_options* options,
                                 tally_operation** operation);

/* Rows of a table of which each rank has some (docs/sparse.md); the others are zeros, which cost next to nothing. */
typedef struct tally_sparse_rows {
  uint32_t table_rows; /* of the whole table; this and the width are the same at all ranks */
  uint32_t width;      /* values in a row, 1 at least */
  const uint32_t* ids; /* increasing, each below table_rows */
  const void* values;  /* of each row one behind the other: count x width */
  size_t count;        /* of ids */
} tally_sparse_rows;
/* Their sum over all ranks. `type`: TALLY_FLOAT32 or TALLY_INT32. `sums`: room for the whole table, apart from the
 * values; NULL: only rows that are not zero in the end are wanted, see below. Rows that are not as said fail with
 * TALLY_INVALID_ARGUMENT and the index, from tally_wait, and nothing is sent. */
tally_code tally_allreduce_sparse_async(tally_worker* worker, int32_t type, const tally_sparse_rows* rows,
                                        void* sums, const tally_reduce_options* options,
                                        tally_operation** operation);
/* Of one that was issued without `sums` and is done with success: the rows of the sum, in the same form. They belong
 * to the operation, until it is freed. */
tally_code tally_get_sparse_sums(tally_operation* operation, tally_sparse_rows* sums);

/* Three that are sums with zeros at who has nothing to say. All ranks give the same sizes. In a job with
 * stragglers what a late rank had to say is missing, 0: tally_operation_stats.incomplete. */
/* The bytes of rank `root` reach all. */
tally_code tally_broadcast_async(tally_worker* worker, void* data, size_t bytes, uint16_t root,
                                 const tally_reduce_options* options, tally_operation** operation);
/* `bytes` bytes of every rank, in the order of ranks, reach all: `all` has room for the world times as many.
 * `mine` may be this rank's place in it. */
tally_code tally_all_gather_async(tally_worker* worker, const void* mine, void* all, size_t bytes,
                                  const tally_reduce_options* options, tally_operation** operation);
/* Of the sums of `in`, the world times `count` elements, this rank's part goes to `out`. A box sends every
 * result to every rank, so it takes as long as the sum of all. */
tally_code tally_reduce_scatter_async(tally_worker* worker, int32_t type, const void* in, void* out,
                                      size_t count, const tally_reduce_options* options,
                                      tally_operation** operation);

/* Done when every rank has issued it. */
tally_code tally_barrier_async(tally_worker* worker, const tally_reduce_options* options,
                               tally_operation** operation);
tally_code tally_barrier(tally_worker* worker);

/* Elements whose sums lack the same ranks. */
typedef struct tally_partial_sum {
  uint64_t first; /* element in the concatenation of the operation's spans */
  uint64_t count;
  uint64_t contributors; /* bitmap of the ranks that are in it */
} tally_partial_sum;

#define TALLY_FOREVER (-1)

/* Blocks until the operation is done; timeout_ms 0 only looks. TALLY_TIMEOUT ends the waiting, not the
 * operation, unless the operation's own timeout passed. A caller that waits in slices asks tally_done in between, and
 * tally_wait once more when that says 1: it may have been done since. stats may be NULL. */
tally_code tally_wait(tally_operation* operation, int64_t timeout_ms, tally_operation_stats* stats);
/* The index-th of an operation that is done with success, from the first element on;
 * TALLY_INVALID_ARGUMENT behind the last. What lies in none of them is the sum of all ranks. */
tally_code tally_get_partial_sum(tally_operation* operation, uint64_t index, tally_partial_sum* partial);
/* 1: done, with or without success. */
int tally_done(const tally_operation* operation);
/* NULL is allowed. */
void tally_operation_free(tally_operation* operation);

/* An eventfd that becomes readable when an operation is done: for poll and epoll; read its 8 bytes before looking
 * which. The library closes it, with the worker and its last operation. -1: the process has no descriptor left,
 * or is the child of a fork. */
int tally_event_fd(const tally_worker* worker);

/* Fails everything pending here and at the other ranks with the reason, and closes the worker. */
tally_code tally_abort(tally_worker* worker, const char* reason);
/* Orderly end: waits for pending operations and the other ranks, then says goodbye. */
tally_code tally_leave(tally_worker* worker, int64_t timeout_ms);
/* TALLY_OK while the worker is not closed; else TALLY_CLOSED, with the reason in tally_last_error(). */
tally_code tally_check(const tally_worker* worker);

/* Set size before the call. */
typedef struct tally_membership {
  size_t size; /* sizeof(tally_membership) */
  uint16_t rank, world, elements;
  uint16_t multicast; /* 1: results come as multicast */
  uint32_t window, shards, epoch, lease_ms;
  uint64_t generation;
} tally_membership;

#define TALLY_MEMBERSHIP_INIT \
  { sizeof(tally_membership), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

tally_code tally_get_membership(const tally_worker* worker, tally_membership* membership);

/* A counter of the worker by name: contributions, retransmissions, results ...; TALLY_INVALID_ARGUMENT names
 * them all. tally_statistic_name(i): the i-th name, NULL behind the last. */
tally_code tally_statistic(const tally_worker* worker, const char* name, uint64_t* value);
const char* tally_statistic_name(size_t index);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(readability-identifier-naming) */
#endif
