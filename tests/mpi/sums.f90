! Fortran's types, in place and not; with -DF08 by `use mpi_f08`.
program sums
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer :: rank, world, error
  real :: values(20000), total(20000)
  integer :: whole(20000), wholes(20000)
  double precision :: wide(100), wides(100)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, world, error)
  values = real(rank) + 0.5
  call MPI_Allreduce(values, total, 20000, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, error)
  if (any(abs(total - (world * (world - 1) / 2 + 0.5 * world)) > 1e-4)) stop 1
  call MPI_Allreduce(MPI_IN_PLACE, values, 20000, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, error)
  if (any(values /= total)) stop 2
  whole = rank + 1
  call MPI_Allreduce(whole, wholes, 20000, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (any(wholes /= world * (world + 1) / 2)) stop 3
  wide = 1
  call MPI_Allreduce(wide, wides, 100, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  if (any(wides /= world)) stop 4
  if (rank == 0) print *, 'all good'
  call MPI_Finalize(error)
end program
