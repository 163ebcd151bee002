! Fortran's types, in place and not; with -DF08 by `use mpi_f08`; -DGET_STATUS: not Open MPI 4.1, whose own
! MPI_Request_get_status of Fortran never says that one is over.
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
  real :: first(20000), second(20000), third(20000)
  real, save :: large(1000000)
  integer :: index, done, indices(3), left
  logical :: flag
#ifdef F08
  type(MPI_Request) :: requests(3)
#else
  integer :: requests(3)
#endif
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
  ! Nonblocking, ended by all that waits or tests.
  do left = 1, 6
    first = rank
    second = 1
    third = 2 * rank
    call MPI_Iallreduce(MPI_IN_PLACE, first, 20000, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, requests(1), error)
    call MPI_Iallreduce(MPI_IN_PLACE, second, 20000, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, requests(2), error)
    call MPI_Iallreduce(MPI_IN_PLACE, third, 20000, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, requests(3), error)
    select case (left)
    case (1)
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE, error)
      call MPI_Waitall(2, requests(2:3), MPI_STATUSES_IGNORE, error)
    case (2)
      call MPI_Waitany(3, requests, index, MPI_STATUS_IGNORE, error)
      call MPI_Waitany(3, requests, index, MPI_STATUS_IGNORE, error)
      call MPI_Waitany(3, requests, index, MPI_STATUS_IGNORE, error)
      if (index < 1 .or. index > 3) stop 5
    case (3)
      done = 0
      do while (done < 3)
        call MPI_Waitsome(3, requests, index, indices, MPI_STATUSES_IGNORE, error)
        done = done + index
      end do
    case (4)
      flag = .false.
      do while (.not. flag)
        call MPI_Testall(3, requests, flag, MPI_STATUSES_IGNORE, error)
      end do
    case (5)
      do done = 1, 3
        flag = .false.
        do while (.not. flag)
          call MPI_Test(requests(done), flag, MPI_STATUS_IGNORE, error)
        end do
      end do
    case (6)
      do done = 1, 3
#ifdef GET_STATUS
        flag = .false.
        do while (.not. flag)
          call MPI_Request_get_status(requests(done), flag, MPI_STATUS_IGNORE, error)
        end do
#endif
        call MPI_Wait(requests(done), MPI_STATUS_IGNORE, error)
      end do
    end select
    if (any(first /= world * (world - 1) / 2) .or. any(second /= world) .or. any(third /= world * (world - 1))) stop 6
  end do
  ! A large message that its receiver takes behind a sum: MPI's own progress goes on while one is waited for.
  first = rank
  if (rank == 0) then
    call MPI_Irecv(large, 1000000, MPI_REAL, 1, 7, MPI_COMM_WORLD, requests(2), error)
  else if (rank == 1) then
    large = 3
    call MPI_Send(first, 1, MPI_REAL, 0, 8, MPI_COMM_WORLD, error)
    call MPI_Send(large, 1000000, MPI_REAL, 0, 7, MPI_COMM_WORLD, error)
  end if
  call MPI_Iallreduce(MPI_IN_PLACE, first, 20000, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, requests(1), error)
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE, error)
  call MPI_Allreduce(MPI_IN_PLACE, first, 20000, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 0) then
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE, error)
    call MPI_Recv(second, 1, MPI_REAL, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    if (any(large /= 3)) stop 7
  end if
  if (rank == 0) print *, 'all good'
  call MPI_Finalize(error)
end program
