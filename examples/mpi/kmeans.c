/* Lloyd's k-means in float, of points that each rank makes up for itself: kmeans [STEPS [FILE]]. What the ranks sum in each
 * step, centres and counts in one MPI_Allreduce of 129 KiB, goes through a box when tally-mpi stands in front. Rank 0 prints
 * the mean squared distance of points to their centres, and writes that of every step to FILE. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kPoints = 4000, kWidth = 128, kCentres = 256 };

static float points[kPoints][kWidth], centres[kCentres][kWidth];
static struct {
  float centres[kCentres][kWidth], counts[kCentres], distance;
} sums;

static unsigned long long state;
static float draw(void) { /* of [0, 1) */
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (float)(state >> 40) / (float)(1 << 24);
}

static float distance(const float* a, const float* b) {
  float sum = 0;
  for (int i = 0; i < kWidth; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

int main(int argc, char** argv) {
  int rank, world;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  const int steps = argc > 1 ? atoi(argv[1]) : 20;
  FILE* const file = argc > 2 && rank == 0 ? fopen(argv[2], "w") : NULL;

  /* Heaps around places that are the same at all ranks; the first centres are such places with noise. */
  static float places[kCentres][kWidth];
  state = 1;
  for (int c = 0; c < kCentres; ++c)
    for (int i = 0; i < kWidth; ++i) centres[c][i] = (places[c][i] = draw()) + draw() - 0.5F;
  state = (unsigned long long)rank + 2;
  for (int p = 0; p < kPoints; ++p) {
    const int heap = (int)(draw() * kCentres);
    for (int i = 0; i < kWidth; ++i) points[p][i] = places[heap][i] + 0.2F * (draw() - 0.5F);
  }

  const double begun = MPI_Wtime();
  for (int step = 0; step < steps; ++step) {
    memset(&sums, 0, sizeof sums);
    for (int p = 0; p < kPoints; ++p) {
      int nearest = 0;
      float least = distance(points[p], centres[0]);
      for (int c = 1; c < kCentres; ++c) {
        const float d = distance(points[p], centres[c]);
        if (d < least) least = d, nearest = c;
      }
      for (int i = 0; i < kWidth; ++i) sums.centres[nearest][i] += points[p][i];
      sums.counts[nearest] += 1;
      sums.distance += least;
    }
    MPI_Allreduce(MPI_IN_PLACE, &sums, sizeof sums / sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int c = 0; c < kCentres; ++c)
      for (int i = 0; i < kWidth && sums.counts[c] > 0.5F; ++i) centres[c][i] = sums.centres[c][i] / sums.counts[c];
    const float mean = sums.distance / (float)(kPoints * world);
    if (file != NULL) fprintf(file, "%.7g\n", (double)mean);
    if (rank == 0 && (step == 0 || step == steps - 1)) printf("step %2d: mean squared distance %.5f\n", step, (double)mean);
  }
  if (rank == 0) printf("%.1f ms a step\n", 1e3 * (MPI_Wtime() - begun) / steps);
  if (file != NULL) fclose(file);
  MPI_Finalize();
  return 0;
}
