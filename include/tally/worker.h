#pragma once
// libtally: the worker's side of a Tally box. A program joins a job and sums arrays with the other ranks:
//
//   auto options = tally::WorkerOptions::from_environment();   // Result<WorkerOptions>
//   auto worker = tally::Worker::join(*options);               // Result<Worker>
//   auto sum = worker->allreduce_async(std::span(gradient));   // in place, exact
//   auto stats = sum.wait();                                   // Result<OperationStats>
//
// Thread-safe: any thread may call any function of one Worker; its destruction and its being moved need that
// nobody else uses it. Each Worker has one progress thread; callbacks run on it. Buffers stay the caller's,
// alive and untouched until their operation is done. All ranks issue the same operations in the same order.
// After an abort or a failure, also when the job begins anew with another
// process in a rank, the Worker stays closed: destroy it, which frees its port, and join a new one.
//
// After fork() the child's copies of a Worker and its Operations answer every call with kClosed and may be
// destroyed; the child may join for itself. A child that is forked in a callback must exec or _exit:
// returning from the callback ends it (abort()). A Worker that was moved from may only be destroyed or
// assigned to.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tally/element_type.h"
#include "tally/engine_statistics.h"
#include "tally/error.h"
#include "tally/float_options.h"
#include "tally/ids.h"
#include "tally/priority.h"
#include "tally/sparse.h"

namespace tally {

struct WorkerOptions {
  std::string job{};    // TALLY_JOB: name, 1..64 bytes
  std::string token{};  // TALLY_TOKEN, or the content of the file TALLY_TOKEN_FILE; 0..64 bytes
  // TALLY_SWITCH: the box's IP address; of a job over several boxes any of them, or some, separated by commas, which
  // are asked in turn until one leads to the job's home.
  std::string box{};
  // TALLY_TRANSPORT: udp (sockets of the kernel, docs/udp.md), or dpdk:DEVICE, e.g.
  // dpdk:net_memif0,role=client,id=0,...; empty: udp
  std::string transport{"udp"};
  std::string address{};   // TALLY_ADDRESS: of this worker, e.g. 10.0.0.11/24; dpdk needs it, udp does not
  std::uint16_t rank = 0;  // TALLY_RANK, RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID, PMI_RANK
  // 1..4096; more than 64 only in a job of racks (docs/two_levels.md), whose workers are counted rack by rack.
  std::uint16_t world = 1;     // TALLY_WORLD, WORLD_SIZE, OMPI_COMM_WORLD_SIZE, SLURM_NTASKS, PMI_SIZE
  std::uint16_t elements = 0;  // TALLY_ELEMENTS: most values in a packet; 0: what the MTU carries
  std::uint16_t mtu = 1500;    // TALLY_MTU: of the path to the box, 616..9198
  bool poll = false;           // TALLY_IDLE=poll|adaptive: never sleep
  // TALLY_PRIORITY: 0..254 as `priority:` of tallyd's jobs. Its class, priority / 64, is that of operations
  // that choose none. The box lowers what is above the job's own; so the default is the job's.
  std::uint16_t priority = kGreatestPriority;
  std::chrono::milliseconds join_timeout{60'000};  // TALLY_JOIN_TIMEOUT, seconds; for all ranks to arrive
  std::string debug{};                             // TALLY_DEBUG: empty, INFO or TRACE; lines go to stderr

  // Defaults, then the file TALLY_CONFIG if set (`key = value`, keys as the variables in lower case without
  // TALLY_, `#` comments), then rank and world of the launcher, then the TALLY_ variables. Of the launchers
  // the first that tells both rank and world is believed. A variable set to nothing is not set; one that is
  // nearly one of these is an error. Errors name the variable (or file:line), the value and what would be
  // right. What is missing is said by join().
  [[nodiscard]] static Result<WorkerOptions> from_environment();
};

struct ReduceOptions {
  // Priority::in_class(0..3) or Priority::exactly(0..254), else the worker's. The box lowers what is above
  // the job's maximum.
  Priority priority{};
  // The operation fails by itself, and with it the job at every rank, when it takes longer. 0: never.
  std::chrono::milliseconds timeout{0};
  // Of float: each sum divided by the number of ranks in it, which is the world unless the job has stragglers
  // and some came too late. With integers kInvalidArgument.
  bool mean = false;
  // Of float, the same at all ranks.
  WireType wire = WireType::kShortest;
  NonFinite non_finite = NonFinite::kFail;
  // Called once, on the progress thread, before done() turns true and wait() returns. Must not block or
  // throw. It may issue operations, abort, and destroy the Worker (whose thread then ends by itself a moment
  // later).
  std::function<void(const Result<OperationStats>&)> done{};
};

// An array whose type is known when the program runs: values in, sums out. Both aligned to an element.
struct Buffer {
  const void* in = nullptr;  // nullptr: zeros, which cost a header for a packet
  void* out = nullptr;       // `in` itself, or memory that does not overlap it; nullptr: the sums go nowhere
  std::size_t count = 0;     // elements
};

class WorkerImpl;
struct OperationState;

// One operation under way. Cheap to copy; outlives its Worker (then the operation has failed with kClosed).
class Operation {
 public:
  // Blocks until the operation is done. A timeout ends the waiting, not the operation: kTimeout, naming the
  // ranks that the box waits for as far as it said; wait again. (kTimeout is also what an operation fails
  // with whose own timeout has passed; then done() is true.) An operation that could not be issued fails
  // here. On the progress thread only when done() (else kInvalidArgument).
  [[nodiscard]] Result<OperationStats> wait(
      std::chrono::milliseconds timeout = std::chrono::milliseconds::max()) const;
  [[nodiscard]] bool done() const noexcept;

 private:
  friend class WorkerImpl;
  explicit Operation(std::shared_ptr<OperationState> state) noexcept;
  std::shared_ptr<OperationState> state_;
};

// What the newest join said; for people and for checks.
struct WorkerMembership {
  std::uint16_t rank = 0, world = 0, elements = 0;
  std::uint32_t window = 0, shards = 0;
  std::uint64_t generation = 0;
  std::uint32_t epoch = 0;
  std::chrono::milliseconds lease{0};
  bool multicast = false;
  // Of a job of racks: how many, and this worker's. 0, 0: of another job. Bitmaps of ranks (OperationStats) are then of
  // this rack, and their bit 0 is rank first_rank.
  std::uint16_t racks = 0, rack = 0, first_rank = 0;
};

class Worker {
 public:
  // Returns when all ranks have joined. Errors name the cause: kRefused with the box's words (token, world,
  // rank held, admission), kTimeout with the missing ranks, kUnreachable (no answer for join_timeout or 10 s,
  // whichever is shorter), kInvalidArgument, kSystem. A join that gives up before the job is formed tells the
  // box, so that the rank's place is free at once; should that be lost, after a silence of 3 s.
  [[nodiscard]] static Result<Worker> join(const WorkerOptions& options);
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;
  // Aborts with "the worker was destroyed" unless it left or is closed: gives the box up to 200 ms to hear of
  // it. Pending operations fail with kClosed.
  ~Worker();

  // Sums element by element over all ranks, in place, exactly as docs/protocol.md, 10, says. In a
  // job with stragglers some sums may lack ranks, the same at every rank: OperationStats names them, element
  // by element. A rank that stays too far behind fails with kFellBehind.
  Operation allreduce_async(std::span<float> values, const ReduceOptions& options = {});
  Operation allreduce_async(std::span<std::int32_t> values, const ReduceOptions& options = {});
  // One operation over the concatenation of the spans.
  Operation allreduce_async(std::span<const std::span<float>> spans, const ReduceOptions& options = {});
  Operation allreduce_async(std::span<const std::span<std::int32_t>> spans,
                            const ReduceOptions& options = {});
  // Out of place: `in` stays as it is. As many elements as `out`, which it does not overlap.
  Operation allreduce_async(std::span<const float> in, std::span<float> out,
                            const ReduceOptions& options = {});
  Operation allreduce_async(std::span<const std::int32_t> in, std::span<std::int32_t> out,
                            const ReduceOptions& options = {});
  // Of any type, in place or not. One operation over the concatenation of the buffers.
  Operation allreduce_async(ElementType type, std::span<const Buffer> buffers,
                            const ReduceOptions& options = {});

  // Sums a table of which each rank gives the rows that it has (docs/sparse.md); what no rank has travels as next to
  // nothing. All ranks give the same shape. Rows that are not as SparseRows says fail with kInvalidArgument and the
  // index, and nothing is sent. `sums`: the whole table, apart from `rows`; or those of its rows that are not zero in
  // the end, for tables of which few are touched: whoever needs them waits until done() and may change them then.
  Operation allreduce_sparse_async(const TableShape& table, const SparseRows<float>& rows,
                                   std::span<float> sums, const ReduceOptions& options = {});
  Operation allreduce_sparse_async(const TableShape& table, const SparseRows<std::int32_t>& rows,
                                   std::span<std::int32_t> sums, const ReduceOptions& options = {});
  Operation allreduce_sparse_async(const TableShape& table, const SparseRows<float>& rows,
                                   SparseSums<float>& sums, const ReduceOptions& options = {});
  Operation allreduce_sparse_async(const TableShape& table, const SparseRows<std::int32_t>& rows,
                                   SparseSums<std::int32_t>& sums, const ReduceOptions& options = {});

  // Three that are sums with zeros at who has nothing to say, and so as exact, as repairable and in the same
  // order as any other operation. All ranks give the same sizes. In a job with stragglers what a late rank had
  // to say is missing, 0: OperationStats::incomplete.
  // The bytes of rank `root` reach all.
  Operation broadcast_async(std::span<std::byte> data, std::uint16_t root, const ReduceOptions& options = {});
  // `mine` of every rank, in the order of ranks, reaches all: `all` has the world times its size. `mine` may be
  // this rank's place in `all`.
  Operation all_gather_async(std::span<const std::byte> mine, std::span<std::byte> all,
                             const ReduceOptions& options = {});
  // Of the sums of `in`, world times `count` elements, this rank's part goes to `out`. A box sends every result
  // to every rank, so it takes as long as the sum of all.
  Operation reduce_scatter_async(ElementType type, const void* in, void* out, std::size_t count,
                                 const ReduceOptions& options = {});

  // Done when every rank has issued it, stragglers too: an operation without values.
  Operation barrier_async(const ReduceOptions& options = {});
  [[nodiscard]] Result<OperationStats> barrier();

  // Fails everything pending here and at the other ranks with the reason; waits up to 200 ms for the box to
  // hear of it (not in a callback).
  void abort(std::string_view reason);
  // Orderly end: no new operations; waits for the pending ones and the other ranks (a barrier), then says
  // goodbye. kTimeout: it goes on; call again. Not in a callback (kInvalidArgument). Again after success:
  // fine.
  [[nodiscard]] Result<void> leave(std::chrono::milliseconds timeout = std::chrono::seconds(60));

  // Becomes readable (eventfd, non-blocking) when an operation is done; read its 8 bytes before looking which.
  // For poll and epoll; the Worker's and its operations' own, closed with the last of them. -1: the process has
  // no descriptor left.
  [[nodiscard]] int event_fd() const;

  // At most 1 ms old, and not older than the newest operation that is done.
  [[nodiscard]] EngineStatistics statistics() const;
  [[nodiscard]] std::optional<WorkerMembership> membership() const;
  // Why the worker is closed; empty while it is not.
  [[nodiscard]] std::optional<Error> why_closed() const;

 private:
  explicit Worker(std::unique_ptr<WorkerImpl> impl) noexcept;
  std::unique_ptr<WorkerImpl> impl_;
};

}  // namespace tally
