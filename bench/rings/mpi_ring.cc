// MPI's allreduce, by the algorithm that MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM names (MPICH; tools/bench-rings
// sets tsp_ring): MPI_Allreduce itself has no ring to choose in MPICH 4.0.
// Its own wait spins, and eight spinning ranks leave the switch of a small machine no CPU: here they sleep a
// moment between two tests, in which a link of 200 Mbit/s carries a frame or two.
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "ring_run.h"

namespace {

constexpr std::chrono::microseconds kNap{50};
constexpr int kTests = 32;  // between two naps: one moves 8 KiB at most

void finish(MPI_Request request) {
  for (int done = 0; done == 0;) {
    for (int i = 0; i < kTests && done == 0; ++i) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) std::this_thread::sleep_for(kNap);
  }
}

}  // namespace

// Errors of MPI end the job: MPI_ERRORS_ARE_FATAL.
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const auto options = tally::parse_ring_options(argc, argv, true);
  int rank = 0;
  int world = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  tally::Ring ring{
      .name = "mpi", .rank = static_cast<std::uint32_t>(rank), .world = static_cast<std::uint32_t>(world)};
  ring.barrier = [] {
    MPI_Request request{};
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    finish(request);
  };
  ring.sum = [](std::span<float> values) {
    MPI_Request request{};
    MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                   MPI_COMM_WORLD, &request);
    finish(request);
  };
  // With tally-mpi in front a communicator joins the box at the first sum that blocks.
  std::vector<float> first(std::size_t{64} << 10U);
  MPI_Allreduce(MPI_IN_PLACE, first.data(), static_cast<int>(first.size()), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
  ring.everywhere = [](std::uint64_t wrong) {
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return wrong;
  };
  const std::uint64_t wrong = tally::run_ring(ring, options);
  // MPI_Finalize of MPICH 4.0.2 over UCX's TCP waits for ever now and then (3 of 16 runs): all is said and
  // written.
  if (rank == 0) MPI_Abort(MPI_COMM_WORLD, wrong == 0 ? 0 : 1);
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}
