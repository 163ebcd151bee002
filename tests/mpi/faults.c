/* What a program sees whose sums fail, with MPI_ERRORS_RETURN: faults late | sizes | lost | shared. Rank 0 ends with "all
 * good" when all of it was as it must be.
 * late: rank 1 comes when a box with `stragglers` has summed without it. sizes: the ranks' arrays differ. lost: somebody
 * ends the box behind the line "ready". shared: one thread waits for a sum while another frees its communicator. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kCount = 100000 };
static float values[2 * kCount];
static int rank, world;

static int sum(int count) { return MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }

static void expect(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void late(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) sleep(5);
  expect(sum(kCount) != MPI_SUCCESS, "a sum without rank 1 was taken for one");
}

/* The one that has less is done with its part. */
static void sizes(void) {
  int code = MPI_SUCCESS;
  for (int i = 0; i < 3 && code == MPI_SUCCESS; ++i) code = sum(kCount * (1 + rank % 2));
  expect(code != MPI_SUCCESS, "sums of arrays that differ");
}

static void lost(void) {
  int code = MPI_SUCCESS;
  if (rank == 0) printf("ready\n");
  fflush(stdout);
  while (code == MPI_SUCCESS) code = sum(kCount);
  expect(sum(kCount) != MPI_SUCCESS, "a sum behind the box's end");
}

static void* wait_for(void* request) {
  MPI_Wait(request, MPI_STATUS_IGNORE);
  return NULL;
}
static void shared(void) {
  for (int i = 0; i < 25; ++i) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    static float other[kCount];
    for (int j = 0; j < kCount; ++j) values[j] = other[j] = 1;
    MPI_Allreduce(MPI_IN_PLACE, other, kCount, MPI_FLOAT, MPI_SUM, comm);
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, values, kCount, MPI_FLOAT, MPI_SUM, comm, &request);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for, &request);
    MPI_Comm_free(&comm);
    pthread_join(thread, NULL);
    for (int j = 0; j < kCount; ++j) expect(values[j] == (float)world, "a wrong sum");
  }
}

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  setenv("OMPI_COMM_WORLD_SIZE", "68", 1); /* as in a program of more ranks than a job has */
  expect(level == MPI_THREAD_MULTIPLE, "this MPI has no threads");
  const char* const which = argc > 1 ? argv[1] : "";
  expect(sum(kCount) == MPI_SUCCESS, "the first sum");
  if (strcmp(which, "late") == 0) late();
  if (strcmp(which, "sizes") == 0) sizes();
  if (strcmp(which, "lost") == 0) lost();
  if (strcmp(which, "shared") == 0) shared();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("all good\n");
  MPI_Finalize();
  return 0;
}
