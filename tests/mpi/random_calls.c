/* Random sums beside PMPI's: random_calls CALLS SEED. Integers must be the same bits; floats within the bound of the box.
 * Types, MPI_IN_PLACE, sizes around 0, communicators that are split, duplicated and freed, nonblocking sums that are
 * mixed with messages and ended by everything that waits or tests. */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMost = 20000, kInFlight = 5, kComms = 3 };

static int rank, world;
static uint64_t state; /* the same at all ranks */
static unsigned draw(unsigned below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % below;
}

static void fail(const char* what) {
  fprintf(stderr, "rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

typedef struct {
  MPI_Datatype type;
  int count, in_place, is_float;
  union {
    float f[kMost];
    int i[kMost];
    double d[kMost];
  } in, out, expected;
} sum;
static sum sums[kInFlight];

static void fill(sum* s, int which) {
  static const int kTypes = 5;
  const unsigned kind = draw((unsigned)kTypes);
  s->count = draw(4) == 0 ? (int)draw(20) : (int)draw(kMost);
  s->in_place = draw(2) == 0;
  s->type = kind == 0 ? MPI_FLOAT : kind == 1 ? MPI_INT : kind == 2 ? MPI_INT32_T : kind == 3 ? MPI_DOUBLE : MPI_UNSIGNED;
  s->is_float = kind == 0;
  for (int i = 0; i < s->count; ++i) {
    if (kind == 0)
      s->in.f[i] = (float)((rank * 31 + i * 7 + which) % 1000) / 997.0F - 0.5F;
    else if (kind == 3)
      s->in.d[i] = (double)(rank + i);
    else
      s->in.i[i] = (rank + 1) * i - which;
  }
  memcpy(&s->out, &s->in, sizeof s->out);
}

static void check(const sum* s) {
  if (!s->is_float) {
    const size_t size = s->type == MPI_DOUBLE ? 8 : 4;
    if (memcmp(&s->out, &s->expected, size * (size_t)s->count) != 0) fail("an integer sum is not PMPI's");
    return;
  }
  /* Each rank rounds to 2^-s of the largest magnitude, 1/2 here; and MPI rounds at each step. */
  for (int i = 0; i < s->count; ++i)
    if (fabsf(s->out.f[i] - s->expected.f[i]) > 1e-6F * (float)world) fail("a float sum is off");
}

static void end_all(MPI_Request* requests, int n) {
  int index, flag = 0, done;
  int indices[kInFlight + 2];
  switch (draw(7)) {
    case 0:
      MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
      return;
    case 1:
      for (int i = n - 1; i >= 0; --i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
      return;
    case 2:
      for (int left = n; left > 0; --left) {
        MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE);
        if (index == MPI_UNDEFINED) fail("Waitany found nothing");
      }
      return;
    case 3:
      for (int left = n; left > 0; left -= done) MPI_Waitsome(n, requests, &done, indices, MPI_STATUSES_IGNORE);
      return;
    case 4:
      while (!flag) MPI_Testall(n, requests, &flag, MPI_STATUSES_IGNORE);
      return;
    case 5:
      for (int left = n; left > 0;) {
        MPI_Testany(n, requests, &index, &flag, MPI_STATUS_IGNORE);
        if (flag) --left;
      }
      return;
    default:
      for (int i = 0; i < n; ++i)
        for (flag = 0; !flag;) {
          MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
          if (flag) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
        }
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  const long calls = argc > 1 ? atol(argv[1]) : 1000;
  state = argc > 2 ? (uint64_t)atol(argv[2]) : 1;
  MPI_Comm comms[kComms] = {MPI_COMM_WORLD, MPI_COMM_NULL, MPI_COMM_NULL};
  long made = 0;
  while (made < calls) {
    /* A communicator of its own for a while: all ranks again, or halves. */
    const unsigned which = draw(kComms);
    if (which != 0 && comms[which] == MPI_COMM_NULL) {
      if (which == 1)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
      else
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[2]);
    } else if (which != 0 && draw(20) == 0) {
      MPI_Comm_free(&comms[which]);
      continue;
    }
    const MPI_Comm comm = comms[which];
    if (draw(3) != 0) {
      sum* const s = &sums[0];
      fill(s, (int)made);
      PMPI_Allreduce(&s->in, &s->expected, s->count, s->type, MPI_SUM, comm);
      MPI_Allreduce(s->in_place ? MPI_IN_PLACE : (void*)&s->in, &s->out, s->count, s->type, MPI_SUM, comm);
      check(s);
      ++made;
      continue;
    }
    const int n = 1 + (int)draw(kInFlight);
    MPI_Request requests[kInFlight + 2];
    for (int i = 0; i < n; ++i) {
      fill(&sums[i], (int)made + i);
      PMPI_Allreduce(&sums[i].in, &sums[i].expected, sums[i].count, sums[i].type, MPI_SUM, comm);
    }
    for (int i = 0; i < n; ++i)
      MPI_Iallreduce(sums[i].in_place ? MPI_IN_PLACE : (void*)&sums[i].in, &sums[i].out, sums[i].count, sums[i].type,
                     MPI_SUM, comm, &requests[i]);
    /* A message around the ring, in the same list. */
    int sent = rank, got = -1;
    MPI_Irecv(&got, 1, MPI_INT, (rank + world - 1) % world, 7, MPI_COMM_WORLD, &requests[n]);
    MPI_Isend(&sent, 1, MPI_INT, (rank + 1) % world, 7, MPI_COMM_WORLD, &requests[n + 1]);
    end_all(requests, n + 2);
    for (int i = 0; i < n + 2; ++i)
      if (requests[i] != MPI_REQUEST_NULL) fail("a request is not over");
    if (got != (rank + world - 1) % world) fail("a message is lost");
    for (int i = 0; i < n; ++i) check(&sums[i]);
    made += n;
  }
  /* What a box does not do. */
  int most = 0;
  MPI_Allreduce(&rank, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (most != world - 1) fail("MAX is wrong");
  if (rank == 0) printf("all good: %ld sums\n", made);
  for (int i = 1; i < kComms; ++i)
    if (comms[i] != MPI_COMM_NULL) MPI_Comm_free(&comms[i]);
  MPI_Finalize();
  return 0;
}
