/* Between an MPI program and its MPI: MPI_Allreduce and MPI_Iallreduce of sums that a box can make go through it,
 * everything else to the MPI as before. One source, compiled once against each MPI; loaded in front of it (tally-mpi).
 *
 * Which way a call goes follows from operation, type, size and communicator alone, so all ranks decide alike. A
 * communicator joins the box at its first such call that blocks: all of its ranks come to it. (A nonblocking one must not
 * wait for the others; before that it is the MPI's.) Communicators are ordered apart from one another, so each has a worker
 * of its own.
 *
 * Where a host has several ranks, one of them leads: the MPI sums within the host, the leaders sum through the box, the MPI
 * tells the others. A link carries one copy then, and a job's 64 workers are 64 hosts.
 *
 * A nonblocking sum is a generalised request that the caller itself completes, in whatever waits or tests: then no other
 * thread calls MPI, and a program needs no thread level that it does not need anyway.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tally/tally.h"

#define KEEP __attribute__((visibility("default")))

/* Of a job; and of a job of racks, which only that of MPI_COMM_WORLD can be. */
enum { kMostWorkers = 64, kMostOfRacks = 4096 };
enum { kSliceMs = 1, kBuckets = 1024, kLeaveMs = 5000 };

/* Why a call went to the MPI. */
typedef enum { kTaken, kOperation, kType, kSize, kCommunicator, kNotJoined, kLeaders, kOneHost, kNoBox, kWhys } why_t;
static const char* const kWhyNames[kWhys] = {
    "", "operation", "type", "size", "communicator", "nonblocking before the first", "nonblocking with leaders", "one host", "no box"};

/* A communicator's way to the box. */
typedef struct lane {
  why_t why;            /* kTaken: all ranks go through the box; else none does */
  MPI_Comm host;        /* this rank's host, whose rank 0 leads; MPI_COMM_NULL: every rank is a worker */
  tally_worker* worker; /* NULL: not joined, or another rank leads */
  int pending;          /* nonblocking sums that MPI does not know to be over */
  struct lane* next;
} lane;

/* A nonblocking sum under way. */
typedef struct pending {
  MPI_Request request;
  tally_operation* operation;
  lane* by;
  int claimed; /* some thread completes it: the one that waits, or one that frees the communicator */
  int failed;
  struct pending* next;
} pending;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int keyval = MPI_KEYVAL_INVALID; /* of communicators: their lanes */
static long least_bytes = 32 * 1024; /* TALLY_MPI_MIN */
static int disabled, required, wire_bits;
static int leaders = -1; /* TALLY_MPI_LEADERS; -1: where ranks share hosts, and there are several hosts */
static lane* lanes;
static pending* requests[kBuckets];
static int outstanding; /* pending requests; 0: nobody has to look for one */
static uint64_t calls[kWhys], bytes_taken;

static int forget_lane(MPI_Comm comm, int key, void* value, void* extra);
static int end_all(MPI_Comm comm, int key, void* value, void* extra);
static tally_code wait_for(tally_operation* operation);
static void complete(pending* of, tally_code code);
static pending* claim_one_of(const lane* by);
static void look_at(pending* of);
static int claim(pending* of);

/* A look at a request that is never over has both MPIs progress; MPI_Iprobe does not as long as it finds a message. */
static MPI_Request never = MPI_REQUEST_NULL;
static void let_mpi_go_on(void) {
  int flag = 0;
  PMPI_Request_get_status(never, &flag, MPI_STATUS_IGNORE);
}
static int query_nothing(void* extra, MPI_Status* status) {
  (void)extra;
  PMPI_Status_set_elements(status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return MPI_SUCCESS;
}
static int release_nothing(void* extra) {
  (void)extra;
  return MPI_SUCCESS;
}
static int cancel(void* extra, int complete) {
  (void)extra, (void)complete; /* a sum that others take part in goes on */
  return MPI_SUCCESS;
}

static void start(void) {
  const char* text = getenv("TALLY_MPI_MIN");
  if (text != NULL) least_bytes = atol(text);
  text = getenv("TALLY_MPI_WIRE");
  wire_bits = text != NULL && strcmp(text, "int16") == 0 ? TALLY_WIRE_INT16 : TALLY_WIRE_SHORTEST;
  text = getenv("TALLY_MPI_LEADERS");
  if (text != NULL && *text != '\0') leaders = strcmp(text, "0") != 0;
  text = getenv("TALLY_DISABLE");
  disabled = text != NULL && strcmp(text, "1") == 0;
  text = getenv("TALLY_REQUIRE");
  required = text != NULL && strcmp(text, "1") == 0;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_lane, &keyval, NULL);
  /* The first that MPI_Finalize of any language does: it frees what MPI_COMM_SELF has (MPI 3.1, 8.7.1). */
  int at_end = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_all, &at_end, NULL);
  PMPI_Comm_set_attr(MPI_COMM_SELF, at_end, NULL);
  PMPI_Grequest_start(query_nothing, release_nothing, cancel, NULL, &never);
}

static int world_rank(void) {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/* Says it and hands it to the communicator's error handler, which by default ends the program. */
static int fail(MPI_Comm comm, const char* text) {
  fprintf(stderr, "tally-mpi: rank %d: %s\n", world_rank(), text);
  PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

/* Collective. The job of a communicator: TALLY_JOB, or a group of it that its rank 0 names by its own rank in
 * MPI_COMM_WORLD and a count, so that no two communicators have the same. 0: the name is too long. */
static int name_job(MPI_Comm comm, const char* job, char* out, size_t room) {
  static int made; /* under the lock */
  int same = MPI_UNEQUAL, rank = 0, name[2] = {world_rank(), 0};
  PMPI_Comm_compare(comm, MPI_COMM_WORLD, &same);
  PMPI_Comm_rank(comm, &rank);
  if (rank == 0) {
    pthread_mutex_lock(&lock);
    name[1] = ++made;
    pthread_mutex_unlock(&lock);
  }
  PMPI_Bcast(name, 2, MPI_INT, 0, comm);
  /* All are here, and MPI's progress goes on until they are: while one joins the box it does not. */
  PMPI_Barrier(comm);
  const int n = same == MPI_IDENT ? snprintf(out, room, "%s", job)
                                  : snprintf(out, room, "%s/%d.%d", job, name[0], name[1]);
  return n > 0 && (size_t)n < room;
}

/* All but rank and world, which a communicator says: the launcher's world may be larger than any job. */
static int read_environment(tally_options* options) {
  pthread_mutex_lock(&lock);
  const int rank = getenv("TALLY_RANK") != NULL, world = getenv("TALLY_WORLD") != NULL;
  setenv("TALLY_RANK", "0", !rank);
  setenv("TALLY_WORLD", "1", !world);
  const tally_code code = tally_options_from_environment(options);
  if (!rank) unsetenv("TALLY_RANK");
  if (!world) unsetenv("TALLY_WORLD");
  pthread_mutex_unlock(&lock);
  return code == TALLY_OK;
}

/* Does the program run on several hosts? By what its launcher says, the same at all ranks of a host; where it says nothing
 * (0), as if it did not. */
static int on_several_hosts(void) {
  const char* here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (here == NULL) here = getenv("MPI_LOCALNRANKS"); /* MPICH's hydra */
  int size = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  return here != NULL && atoi(here) < size;
}

/* Collective. Who is a worker: this rank's number among them, or -1; how many there are, 0: all are on one host, whose
 * memory is nearer than the box. */
static int number_workers(MPI_Comm comm, lane* of, int* workers) {
  MPI_Comm host;
  PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int rank_of_host = 0, before = 0, rank = 0, hosts = 0;
  int most[2] = {0, leaders}; /* ranks of a host; what any rank's environment says */
  PMPI_Comm_rank(host, &rank_of_host);
  PMPI_Comm_size(host, &most[0]);
  PMPI_Comm_rank(comm, &rank);
  const int leads = rank_of_host == 0;
  PMPI_Allreduce(&leads, &hosts, 1, MPI_INT, MPI_SUM, comm);
  PMPI_Allreduce(MPI_IN_PLACE, most, 2, MPI_INT, MPI_MAX, comm);
  PMPI_Exscan(&leads, &before, 1, MPI_INT, MPI_SUM, comm);
  if (most[1] == 0 || most[0] == 1 || (hosts == 1 && most[1] < 0 && !on_several_hosts())) {
    PMPI_Comm_free(&host);
    PMPI_Comm_size(comm, workers);
    if (*workers == 1) *workers = 0; /* as MPI_COMM_SELF: nothing to sum */
    return rank;
  }
  PMPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN); /* the communicator's own is told */
  of->host = host;
  *workers = hosts > 1 ? hosts : 0;
  return !leads ? -1 : rank == 0 ? 0 : before; /* of the first rank MPI_Exscan says nothing */
}

/* Collective. A lane that has not joined where some worker could not; why is said once for each communicator. */
static lane* make_lane(MPI_Comm comm) {
  lane* const made = calloc(1, sizeof *made);
  made->host = MPI_COMM_NULL;
  int rank = 0, size = 0, inter = 0, workers = 0, number = -1, same = MPI_UNEQUAL;
  PMPI_Comm_test_inter(comm, &inter);
  PMPI_Comm_compare(comm, MPI_COMM_WORLD, &same);
  const int most = same == MPI_IDENT ? kMostOfRacks : kMostWorkers;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  char why[512] = "";
  if (!inter) number = number_workers(comm, made, &workers);
  int joined = 0;
  if (!inter && workers == 0) {
    made->why = kOneHost;
  } else if (inter || workers > most) {
    snprintf(why, sizeof why,
             inter ? "it is an intercommunicator" : "these are %d workers, and a job has at most %d", workers,
             most);
  } else {
    tally_options options = TALLY_OPTIONS_INIT;
    char job[65];
    const int read = read_environment(&options);
    if (!read) snprintf(why, sizeof why, "%s", tally_last_error());
    const int named = name_job(comm, read && options.job != NULL ? options.job : "", job, sizeof job);
    if (read && !named)
      snprintf(why, sizeof why, "the name of its group of job %.40s... is longer than 64 bytes", options.job);
    if (read && named && number >= 0) {
      options.job = job;
      options.rank = (uint16_t)number;
      options.world = (uint16_t)workers;
      if (tally_join(&options, &made->worker) != TALLY_OK)
        snprintf(why, sizeof why, "%s%s", tally_last_error(),
                 made->host == MPI_COMM_NULL
                     ? ""
                     : "; each host is one worker of the job, and with TALLY_MPI_LEADERS=0 each rank");
    }
    const int mine = made->worker != NULL || (read && named && number < 0);
    PMPI_Allreduce(&mine, &joined, 1, MPI_INT, MPI_MIN, comm);
    if (!joined && made->worker != NULL) {
      snprintf(why, sizeof why, "another rank could not join");
      tally_worker_free(made->worker);
      made->worker = NULL;
    }
  }
  if (made->why != kOneHost) made->why = joined ? kTaken : kNoBox;
  if (made->why == kNoBox && (rank == 0 || (required && why[0] != '\0')))
    fprintf(stderr, "tally-mpi: a communicator of %d ranks stays with the MPI: %s\n", size, why);
  PMPI_Comm_set_attr(comm, keyval, made);
  pthread_mutex_lock(&lock);
  made->next = lanes;
  lanes = made;
  pthread_mutex_unlock(&lock);
  return made;
}


/* Nonblocking sums of a lane that is going are waited for: MPI lets them outlive their communicator. Another thread may
 * be completing one. */
static void finish_all(const lane* by) {
  for (pending* of; (of = claim_one_of(by)) != NULL;) complete(of, wait_for(of->operation));
  while (__atomic_load_n(&by->pending, __ATOMIC_ACQUIRE) > 0) {
    let_mpi_go_on();
    usleep(1000 * kSliceMs);
  }
}

/* The others are on their way here: freeing a communicator and finalising are collective. Begun for all lanes before the
 * first is waited for, since ranks may come to them in other orders. */
static void begin_leaving(lane* of) {
  if (of->worker == NULL) return;
  finish_all(of);
  tally_leave(of->worker, 0);
}
static void leave(lane* of) {
  if (of->worker == NULL) return;
  const double end = PMPI_Wtime() + 1e-3 * kLeaveMs;
  while (tally_leave(of->worker, kSliceMs) == TALLY_TIMEOUT && PMPI_Wtime() < end) let_mpi_go_on();
  tally_worker_free(of->worker);
  of->worker = NULL;
}

static int forget_lane(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)extra;
  pthread_mutex_lock(&lock);
  lane** at = &lanes;
  while (*at != NULL && *at != value) at = &(*at)->next;
  if (*at != NULL) *at = (*at)->next;
  pthread_mutex_unlock(&lock);
  lane* const of = value;
  begin_leaving(of);
  leave(of);
  if (of->host != MPI_COMM_NULL) PMPI_Comm_free(&of->host);
  free(of);
  return MPI_SUCCESS;
}

/* tally_type of a type, -1: none. Fortran's have the size that its compiler gave them. */
static int type_of(MPI_Datatype type) {
  if (type == MPI_FLOAT) return TALLY_FLOAT32;
  if (type == MPI_INT || type == MPI_INT32_T) return TALLY_INT32;
  const int real = type == MPI_REAL || type == MPI_REAL4;
  if (!real && type != MPI_INTEGER && type != MPI_INTEGER4) return -1;
  int size = 0;
  if (PMPI_Type_size(type, &size) != MPI_SUCCESS || size != 4) return -1;
  return real ? TALLY_FLOAT32 : TALLY_INT32;
}

/* The lane of a call that the box can make; NULL: the MPI does, and the reason is counted. `error`: of a call that only
 * the box may make (TALLY_REQUIRE) and cannot. blocks: the call may wait for the other ranks. */
static lane* lane_of(int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, int blocks, int* tally,
                     int* error) {
  why_t why = kTaken;
  lane* found = NULL;
  pthread_once(&once, start);
  *error = MPI_SUCCESS;
  if (op != MPI_SUM)
    why = kOperation;
  else if (count < 0 || 4L * count < least_bytes)
    why = kSize;
  else if ((*tally = type_of(type)) < 0)
    why = kType;
  else if (comm == MPI_COMM_NULL)
    why = kCommunicator;
  else if (!disabled) {
    int there = 0;
    PMPI_Comm_get_attr(comm, keyval, &found, &there);
    if (!there && !blocks)
      why = kNotJoined;
    else if (!there)
      found = make_lane(comm); /* without the lock: other threads are in other communicators' */
  }
  if (why == kTaken) why = found == NULL ? kNoBox : found->why;
  if (why == kTaken && !blocks && found->host != MPI_COMM_NULL) why = kLeaders;
  pthread_mutex_lock(&lock);
  ++calls[why];
  if (why == kTaken) bytes_taken += 4u * (uint64_t)count;
  pthread_mutex_unlock(&lock);
  if (why == kNoBox && required) *error = fail(comm, "the box is required (TALLY_REQUIRE)");
  return why == kTaken ? found : NULL;
}

static tally_code issue(const lane* by, int type, const void* from, void* to, int count,
                        tally_operation** operation) {
  const tally_buffer buffer = {from == MPI_IN_PLACE ? to : from, to, (size_t)count};
  tally_reduce_options options = TALLY_REDUCE_OPTIONS_INIT;
  if (type == TALLY_FLOAT32) {
    options.wire_bits = (uint32_t)wire_bits;
    options.non_finite = TALLY_NON_FINITE_PROPAGATE; /* a sum of MPI's has NaN and Inf too */
  }
  return tally_allreduce_async(by->worker, type, &buffer, 1, &options, operation);
}

/* Waits in slices, between which MPI's own progress goes on: somebody may wait for a message of another thread's. */
static tally_code wait_for(tally_operation* operation) {
  while (1) {
    const tally_code code = tally_wait(operation, kSliceMs, NULL);
    if (code != TALLY_TIMEOUT) return code;
    if (tally_done(operation)) return tally_wait(operation, 0, NULL); /* done since */
    let_mpi_go_on();
  }
}

/* Why the sum of an operation that is done is not one; NULL: it is. */
static const char* objection_to(tally_operation* operation, tally_code code) {
  if (code != TALLY_OK) return tally_last_error();
  tally_operation_stats stats = TALLY_OPERATION_STATS_INIT;
  if (tally_wait(operation, 0, &stats) != TALLY_OK) return tally_last_error();
  return stats.incomplete ? "the sum lacks ranks that came too late; MPI's needs a job without stragglers"
                          : NULL;
}

/* One sum, waited for. Why it failed; NULL: it did not. */
static const char* sum(const lane* by, int type, const void* from, void* to, int count) {
  tally_operation* operation = NULL;
  if (issue(by, type, from, to, count, &operation) != TALLY_OK) return tally_last_error();
  const char* const why = objection_to(operation, wait_for(operation));
  tally_operation_free(operation);
  return why;
}

/* The host's sum at its leader, the box's sum of those, and back. */
static int sum_by_leaders(const lane* by, int tally, const void* from, void* to, int count, MPI_Datatype type,
                          MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(by->host, &rank);
  const int leads = rank == 0;
  const void* const mine = from == MPI_IN_PLACE && !leads ? to : from;
  const char* why = "its leader could not sum";
  int failed = 0;
  const int reduced = PMPI_Reduce(mine, to, count, type, MPI_SUM, 0, by->host);
  if (reduced != MPI_SUCCESS) why = "the MPI's sum within a host failed";
  if (leads && reduced != MPI_SUCCESS) {
    tally_abort(by->worker, why); /* the other leaders wait for it */
    failed = 1;
  } else if (leads) {
    why = sum(by, tally, MPI_IN_PLACE, to, count);
    failed = why != NULL;
  }
  int told = PMPI_Bcast(&failed, 1, MPI_INT, 0, by->host);
  if (told == MPI_SUCCESS && !failed) told = PMPI_Bcast(to, count, type, 0, by->host);
  if (told != MPI_SUCCESS) why = "the MPI could not pass the sum on within a host";
  return failed || reduced != MPI_SUCCESS || told != MPI_SUCCESS ? fail(comm, why) : MPI_SUCCESS;
}

KEEP int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int tally = 0, error;
  const lane* const by = lane_of(count, type, op, comm, 1, &tally, &error);
  if (error != MPI_SUCCESS) return error;
  if (by == NULL) return PMPI_Allreduce(from, to, count, type, op, comm);
  if (by->host != MPI_COMM_NULL) return sum_by_leaders(by, tally, from, to, count, type, comm);
  const char* const why = sum(by, tally, from, to, count);
  return why == NULL ? MPI_SUCCESS : fail(comm, why);
}

/* Nonblocking. */

static pending** place_of(MPI_Request request) {
  pending** at = &requests[(uintptr_t)request / sizeof(void*) % kBuckets];
  while (*at != NULL && (*at)->request != request) at = &(*at)->next;
  return at;
}

static int query(void* extra, MPI_Status* status) {
  const pending* const of = extra;
  query_nothing(NULL, status);
  return of->failed ? MPI_ERR_OTHER : MPI_SUCCESS;
}
static int release(void* extra) {
  pending* const of = extra;
  pthread_mutex_lock(&lock);
  pending** const at = place_of(of->request);
  if (*at == of) {
    *at = of->next;
    --outstanding;
  }
  if (!of->claimed) __atomic_sub_fetch(&of->by->pending, 1, __ATOMIC_RELEASE); /* freed before it was over: MPI forbids it */
  pthread_mutex_unlock(&lock);
  tally_operation_free(of->operation);
  free(of);
  return MPI_SUCCESS;
}

#ifdef MPICH
/* Where MPICH itself waits or tests. */
static int poll(void* extra, MPI_Status* status) {
  (void)status;
  look_at(extra);
  let_mpi_go_on(); /* its MPI_Wait does nothing but ask here */
  return MPI_SUCCESS;
}
/* All of them are over when it returns. */
static int wait_for_all(int n, void** extra, double seconds, MPI_Status* statuses) {
  (void)seconds, (void)statuses;
  for (int i = 0; i < n; ++i) {
    pending* const of = extra[i];
    if (claim(of)) {
      complete(of, wait_for(of->operation));
      continue;
    }
    for (int over = 0; !over;) { /* another thread's to complete */
      PMPI_Request_get_status(of->request, &over, MPI_STATUS_IGNORE);
      if (!over) usleep(1000 * kSliceMs);
    }
  }
  return MPI_SUCCESS;
}
#endif

KEEP int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                        MPI_Request* request) {
  int tally = 0, error;
  lane* const by = lane_of(count, type, op, comm, 0, &tally, &error);
  if (error != MPI_SUCCESS) return error;
  if (by == NULL) return PMPI_Iallreduce(from, to, count, type, op, comm, request);
  pending* const made = calloc(1, sizeof *made);
  made->by = by;
  if (issue(by, tally, from, to, count, &made->operation) != TALLY_OK) {
    free(made);
    return fail(comm, tally_last_error());
  }
#ifdef MPICH
  const int code = PMPIX_Grequest_start(query, release, cancel, poll, wait_for_all, made, request);
#else
  const int code = PMPI_Grequest_start(query, release, cancel, made, request);
#endif
  if (code != MPI_SUCCESS) {
    wait_for(made->operation); /* it writes to the caller's memory until then */
    tally_operation_free(made->operation);
    free(made);
    return code;
  }
  pthread_mutex_lock(&lock);
  made->request = *request;
  pending** const at = &requests[(uintptr_t)*request / sizeof(void*) % kBuckets];
  made->next = *at;
  *at = made;
  ++outstanding;
  __atomic_add_fetch(&by->pending, 1, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&lock);
  return MPI_SUCCESS;
}

/* Ours, and nobody completes it yet; NULL: it is not. It lives until its request is freed, by the caller. */
static pending* find(MPI_Request request) {
  if (request == MPI_REQUEST_NULL || __atomic_load_n(&outstanding, __ATOMIC_RELAXED) == 0) return NULL;
  pthread_mutex_lock(&lock);
  pending* found = *place_of(request);
  if (found != NULL && found->claimed) found = NULL;
  pthread_mutex_unlock(&lock);
  return found;
}
static int claim(pending* of) {
  pthread_mutex_lock(&lock);
  const int first = !of->claimed;
  of->claimed = 1;
  pthread_mutex_unlock(&lock);
  return first;
}
static pending* claim_one_of(const lane* by) {
  pending* found = NULL;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < kBuckets && found == NULL; ++i)
    for (pending* of = requests[i]; of != NULL && found == NULL; of = of->next)
      if (of->by == by && !of->claimed) found = of;
  if (found != NULL) found->claimed = 1;
  pthread_mutex_unlock(&lock);
  return found;
}

/* By who claimed it. Behind it another thread may free the request, and `of` with it. */
static void complete(pending* of, tally_code code) {
  const char* const why = objection_to(of->operation, code);
  of->failed = why != NULL;
  if (of->failed) fprintf(stderr, "tally-mpi: rank %d: %s\n", world_rank(), why);
  lane* const by = of->by;
  PMPI_Grequest_complete(of->request);
  __atomic_sub_fetch(&by->pending, 1, __ATOMIC_RELEASE);
}
/* Where another thread completes it, MPI's own wait sees that. */
static void finish(MPI_Request request) {
  pending* const of = find(request);
  if (of != NULL && claim(of)) complete(of, wait_for(of->operation));
}
static void look_at(pending* of) {
  if (tally_done(of->operation) && claim(of)) complete(of, tally_wait(of->operation, 0, NULL));
}
static void look(MPI_Request request) {
  pending* const of = find(request);
  if (of != NULL) look_at(of);
}
static void look_at_all(int n, const MPI_Request* all) {
  for (int i = 0; i < n; ++i) look(all[i]);
}
/* One of ours is in it: then MPI must not block, for we complete it. */
static pending* any_of_ours(int n, const MPI_Request* all) {
  for (int i = 0; i < n; ++i) {
    pending* const of = find(all[i]);
    if (of != NULL) return of;
  }
  return NULL;
}

KEEP int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  finish(*request);
  return PMPI_Wait(request, status);
}
KEEP int MPI_Waitall(int n, MPI_Request all[], MPI_Status* statuses) {
  for (int i = 0; i < n; ++i) finish(all[i]);
  return PMPI_Waitall(n, all, statuses);
}
KEEP int MPI_Waitany(int n, MPI_Request all[], int* index, MPI_Status* status) {
  for (pending* of; (of = any_of_ours(n, all)) != NULL;) {
    look_at_all(n, all);
    int flag = 0;
    const int code = PMPI_Testany(n, all, index, &flag, status);
    if (flag || code != MPI_SUCCESS) return code;
    (void)tally_wait(of->operation, kSliceMs, NULL);
  }
  return PMPI_Waitany(n, all, index, status);
}
KEEP int MPI_Waitsome(int n, MPI_Request all[], int* done, int indices[], MPI_Status* statuses) {
  for (pending* of; (of = any_of_ours(n, all)) != NULL;) {
    look_at_all(n, all);
    const int code = PMPI_Testsome(n, all, done, indices, statuses);
    if (*done != 0 || code != MPI_SUCCESS) return code;
    (void)tally_wait(of->operation, kSliceMs, NULL);
  }
  return PMPI_Waitsome(n, all, done, indices, statuses);
}
KEEP int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  look(*request);
  return PMPI_Test(request, flag, status);
}
KEEP int MPI_Testall(int n, MPI_Request all[], int* flag, MPI_Status* statuses) {
  look_at_all(n, all);
  return PMPI_Testall(n, all, flag, statuses);
}
KEEP int MPI_Testany(int n, MPI_Request all[], int* index, int* flag, MPI_Status* status) {
  look_at_all(n, all);
  return PMPI_Testany(n, all, index, flag, status);
}
KEEP int MPI_Testsome(int n, MPI_Request all[], int* done, int indices[], MPI_Status* statuses) {
  look_at_all(n, all);
  return PMPI_Testsome(n, all, done, indices, statuses);
}
KEEP int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  look(request);
  return PMPI_Request_get_status(request, flag, status);
}
KEEP int MPI_Request_free(MPI_Request* request) {
  finish(*request); /* nobody would complete it later */
  return PMPI_Request_free(request);
}

/* One write: other threads and ranks have the same stderr. */
static void report(void) {
  const char* const debug = getenv("TALLY_DEBUG");
  if (world_rank() != 0 || debug == NULL || debug[0] == '\0') return;
  char text[512];
  int n = snprintf(text, sizeof text, "tally-mpi: %llu sums of %.3f GB through the box",
                   (unsigned long long)calls[kTaken], (double)bytes_taken * 1e-9);
  const char* before = "; by the MPI, by reason: ";
  for (int i = kOperation; i < kWhys && n < (int)sizeof text; ++i) {
    if (calls[i] == 0) continue;
    n += snprintf(text + n, sizeof text - (size_t)n, "%s%s %llu", before, kWhyNames[i],
                  (unsigned long long)calls[i]);
    before = ", ";
  }
  fprintf(stderr, "%s\n", text);
}

static int end_all(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  report();
  for (lane* of = lanes; of != NULL; of = of->next) begin_leaving(of);
  for (lane* of = lanes; of != NULL; of = of->next) leave(of);
  /* What other callbacks of MPI_Finalize sum is the MPI's. */
  disabled = 1;
  required = 0;
  PMPI_Grequest_complete(never);
  return PMPI_Wait(&never, MPI_STATUS_IGNORE);
}

/* Fortran. MPICH's calls the functions above, but for what waits and tests in `use mpi_f08`: that calls PMPI, which asks
 * poll(). Open MPI's call PMPI, so its names are ours too, of both: handles are one integer each, and the
 * error may be left out. What waits or tests does of our sums what C's does, and goes on to Open MPI's own. */
#ifdef OPEN_MPI
extern int mpi_fortran_in_place_ __attribute__((weak));
extern int mpi_fortran_bottom_ __attribute__((weak));

static const void* address(const void* given) {
  if (given == &mpi_fortran_in_place_) return MPI_IN_PLACE;
  return given == &mpi_fortran_bottom_ ? MPI_BOTTOM : given;
}

KEEP void mpi_allreduce_(const void* from, void* to, const MPI_Fint* count, const MPI_Fint* type,
                         const MPI_Fint* op, const MPI_Fint* comm, MPI_Fint* error) {
  const int code = MPI_Allreduce(address(from), (void*)(uintptr_t)address(to), (int)*count,
                                 PMPI_Type_f2c(*type), PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm));
  if (error != NULL) *error = code;
}
KEEP void mpi_allreduce_f08_(const void* from, void* to, const MPI_Fint* count, const MPI_Fint* type,
                             const MPI_Fint* op, const MPI_Fint* comm, MPI_Fint* error) {
  mpi_allreduce_(from, to, count, type, op, comm, error);
}
KEEP void mpi_iallreduce_(const void* from, void* to, const MPI_Fint* count, const MPI_Fint* type,
                          const MPI_Fint* op, const MPI_Fint* comm, MPI_Fint* request, MPI_Fint* error) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int code =
      MPI_Iallreduce(address(from), (void*)(uintptr_t)address(to), (int)*count, PMPI_Type_f2c(*type),
                     PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm), &made);
  if (code == MPI_SUCCESS) *request = PMPI_Request_c2f(made);
  if (error != NULL) *error = code;
}
KEEP void mpi_iallreduce_f08_(const void* from, void* to, const MPI_Fint* count, const MPI_Fint* type,
                              const MPI_Fint* op, const MPI_Fint* comm, MPI_Fint* request, MPI_Fint* error) {
  mpi_iallreduce_(from, to, count, type, op, comm, request, error);
}

static void each(void (*what)(MPI_Request), const MPI_Fint* n, const MPI_Fint* all) {
  for (MPI_Fint i = 0; i < *n; ++i) what(PMPI_Request_f2c(all[i]));
}
static pending* any_of(const MPI_Fint* n, const MPI_Fint* all) {
  pending* of = NULL;
  for (MPI_Fint i = 0; i < *n && of == NULL; ++i) of = find(PMPI_Request_f2c(all[i]));
  return of;
}

/* One function of Fortran, `old` and f08: `before`, then Open MPI's. */
#define PASS_ON(name, parameters, arguments, before) \
  extern void pmpi_##name##_ parameters;             \
  extern void pmpi_##name##_f08_ parameters;         \
  KEEP void mpi_##name##_ parameters {               \
    before;                                          \
    pmpi_##name##_ arguments;                        \
  }                                                  \
  KEEP void mpi_##name##_f08_ parameters {           \
    before;                                          \
    pmpi_##name##_f08_ arguments;                    \
  }
typedef MPI_Fint F;
PASS_ON(wait, (F * request, F* status, F* error), (request, status, error), finish(PMPI_Request_f2c(*request)))
PASS_ON(waitall, (F * n, F* all, F* statuses, F* error), (n, all, statuses, error), each(finish, n, all))
PASS_ON(test, (F * request, F* flag, F* status, F* error), (request, flag, status, error),
        look(PMPI_Request_f2c(*request)))
PASS_ON(testall, (F * n, F* all, F* flag, F* statuses, F* error), (n, all, flag, statuses, error),
        each(look, n, all))
PASS_ON(testany, (F * n, F* all, F* index, F* flag, F* status, F* error), (n, all, index, flag, status, error),
        each(look, n, all))
PASS_ON(testsome, (F * n, F* all, F* done, F* indices, F* statuses, F* error),
        (n, all, done, indices, statuses, error), each(look, n, all))
PASS_ON(request_get_status, (F * request, F* flag, F* status, F* error), (request, flag, status, error),
        look(PMPI_Request_f2c(*request)))
PASS_ON(request_free, (F * request, F* error), (request, error), finish(PMPI_Request_f2c(*request)))

/* Among ours, tests take the wait's place, which would not end. */
#define WAIT_ANY(suffix)                                                                        \
  extern void pmpi_waitany_##suffix(F*, F*, F*, F*, F*);                                        \
  KEEP void mpi_waitany_##suffix(F* n, F* all, F* index, F* status, F* error) {                 \
    for (pending* of; (of = any_of(n, all)) != NULL;) {                                         \
      F flag = 0;                                                                               \
      mpi_testany_##suffix(n, all, index, &flag, status, error);                                \
      if (flag || (error != NULL && *error != MPI_SUCCESS)) return;                             \
      (void)tally_wait(of->operation, kSliceMs, NULL);                                          \
    }                                                                                           \
    pmpi_waitany_##suffix(n, all, index, status, error);                                        \
  }                                                                                             \
  extern void pmpi_waitsome_##suffix(F*, F*, F*, F*, F*, F*);                                   \
  KEEP void mpi_waitsome_##suffix(F* n, F* all, F* done, F* indices, F* statuses, F* error) {   \
    for (pending* of; (of = any_of(n, all)) != NULL;) {                                         \
      *done = 0;                                                                                \
      mpi_testsome_##suffix(n, all, done, indices, statuses, error);                            \
      if (*done != 0 || (error != NULL && *error != MPI_SUCCESS)) return;                       \
      (void)tally_wait(of->operation, kSliceMs, NULL);                                          \
    }                                                                                           \
    pmpi_waitsome_##suffix(n, all, done, indices, statuses, error);                             \
  }
WAIT_ANY()
WAIT_ANY(f08_)
#else
/* The only one of mpi_f08 that asks nobody. Its own is in a library that Fortran's programs bring, maybe by dlopen(). */
KEEP void mpi_request_get_status_f08_(MPI_Fint* request, MPI_Fint* flag, MPI_Fint* status, MPI_Fint* error) {
  void* const fortran = dlopen("libmpichfort.so.12", RTLD_LAZY | RTLD_NOLOAD);
  void (*own)(MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*) = NULL;
  if (fortran != NULL) *(void**)&own = dlsym(fortran, "pmpir_request_get_status_f08_");
  look(PMPI_Request_f2c(*request));
  if (own != NULL)
    own(request, flag, status, error);
  else if (error != NULL)
    *error = MPI_ERR_OTHER;
  if (fortran != NULL) dlclose(fortran);
}
#endif
