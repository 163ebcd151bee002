// What it costs control to publish what changed of many jobs: their caps, as it does every 50 ms, and their
// rows, as when one member of each job has moved. Membership and the chain of publications, two data cores
// that follow at once; 64 workers a job, behind 4 ports. CPU time of the one thread that does it.

#include <array>
#include <cstdio>
#include <ctime>
#include <deque>
#include <vector>

#include "harness.h"
#include "io/publication_chain.h"
#include "members_support.h"

namespace tally::bench {
namespace {

constexpr std::uint16_t kWorkers = 64;
constexpr std::uint16_t kPorts = 4;
constexpr std::uint32_t kEntries = 65'536;
constexpr std::uint32_t kOwnLines = 131'072;  // ledgers
constexpr int kRounds = 15;

class Box {
 public:
  explicit Box(std::uint32_t jobs) : membership_(members_test::shared_box(kOwnLines, kEntries, 2, 16)) {
    for (std::uint32_t j = 0; j < jobs; ++j) {
      members::NativeConfig config =
          members_test::sharer_of(kWorkers, Discipline::kShared, "job" + std::to_string(j));
      config.elements = 16;
      jobs_.push_back({.id = membership_.declare(config), .peers = {}});
      for (std::uint16_t r = 0; r < kWorkers; ++r) {
        members_test::Peer peer(r, kWorkers);
        peer.job = config.name;
        peer.elements = 16;
        peer.binding.address = mapped({10, static_cast<std::uint8_t>(j >> 8), static_cast<std::uint8_t>(j),
                                       static_cast<std::uint8_t>(r)});
        peer.binding.port = PortIndex{static_cast<std::uint16_t>(r % kPorts)};
        jobs_.back().peers.push_back(peer);
      }
      require(membership_.form(jobs_.back().peers), "a job does not form");
    }
    chain_.publish({.version = membership_.version, .table = membership_.table});
    follow();
  }

  // Everybody wants everything, or nobody anything: every cap changes.
  std::pair<double, std::uint64_t> change_caps() {
    greedy_ = !greedy_;
    std::vector<members::SharedDemand> demand;
    for (const Job& job : jobs_) demand.push_back({job.id, 0, greedy_});
    const double seconds = timed([&] { membership_.members->rebalance(demand); });
    const auto jobs = static_cast<std::uint32_t>(jobs_.size());
    for (const Job& job : jobs_)
      require(membership_.status(job.id).cap == (greedy_ ? kEntries / jobs : kEntries),
              "a cap did not change");
    return {seconds, 1};
  }

  // Rank 1 of every job has joined again from another UDP port.
  std::pair<double, std::uint64_t> change_rows() {
    std::vector<members_test::Bytes> joins;
    for (Job& job : jobs_) {
      members_test::Peer& moved = job.peers[1];
      moved.binding.udp_port ^= 1U;
      membership_.challenge(moved);
      joins.push_back(membership_.with_challenge(moved, moved.join()));
    }
    const double seconds = timed([&] {
      for (std::size_t j = 0; j < jobs_.size(); ++j)
        membership_.members->receive(joins[j], jobs_[j].peers[1].binding, membership_.now);
    });
    for (const Job& job : jobs_)
      require(readers_[0].at->publication.table->find(job.id)->ranks[1].binding == job.peers[1].binding,
              "a row did not change");
    membership_.answers();
    return {seconds, 1};
  }

 private:
  struct Job {
    JobId id{};
    std::vector<members_test::Peer> peers;
  };

  // CPU time of this thread: the machine may have other things to do.
  static double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  template <class Change>
  double timed(const Change& change) {
    const double start = cpu_seconds();
    change();
    while (auto publication = membership_.members->publication()) {
      membership_.version = publication->version;
      chain_.publish(std::move(*publication));
    }
    const double took = cpu_seconds() - start;
    follow();
    membership_.members->quiesced(membership_.version, membership_.now);
    return took;
  }
  void follow() {
    for (io::PublicationReader& reader : readers_) {
      while (const io::PublicationNode* next = reader.at->next.load(std::memory_order_acquire)) {
        reader.at = next;
        reader.adopted.store(next->publication.version, std::memory_order_release);
      }
    }
  }

  members_test::Bench membership_;
  std::vector<Job> jobs_;
  bool greedy_ = false;
  std::array<io::PublicationReader, 2> readers_;
  io::PublicationChain chain_{{.mac = {2, 1, 2, 3, 4, 5}, .ipv4 = {10, 1, 0, 1}},
                              {&readers_[0], &readers_[1]}};
};

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  const std::string file = json_argument(argc, argv);
  print_environment();
  std::deque<Box> boxes;
  std::vector<Contender> contenders;
  for (const std::uint32_t jobs : {64U, 512U}) {
    Box& box = boxes.emplace_back(jobs);
    const std::string of = " of " + std::to_string(jobs) + " jobs";
    contenders.push_back({"the caps" + of, [&box] { return box.change_caps(); }});
    contenders.push_back({"the rows" + of, [&box] { return box.change_rows(); }});
  }
  report(file, contenders, kRounds, "ms", 1e-6);
  return 0;
}
