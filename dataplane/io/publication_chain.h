#pragma once
// How publications reach the data cores: a chain that control appends to and every core follows at its own
// pace, none skipped. A node dies when every core uses a later one.
//
// This is read-copy-update with the grace period in the chain itself. rte_rcu_qsbr is not used: there a
// reader that sleeps goes offline and is not waited for, but here every core has to execute every
// publication (it wipes lines of its own slot memory) before control may hand the lines to another job, so
// no core can be exempted. What a core last executed says all that a quiescent state would.

#include <atomic>
#include <cstdint>
#include <vector>

#include "dpdk/impaired_way.h"
#include "io/headers.h"
#include "jobs/job_table.h"

namespace tally::io {

struct PublicationNode {
  explicit PublicationNode(jobs::Publication p, const jobs::Box& box, const PublicationNode* before)
      : publication(std::move(p)),
        headers(*publication.table, box, before != nullptr ? &before->headers : nullptr,
                before != nullptr ? before->publication.table.get() : nullptr) {}

  jobs::Publication publication;
  HeaderTable headers;
  // By core, if this one is about faults on purpose: each core exchanges its own, and they die with the node.
  std::vector<dpdk::PortWays> ways;
  std::uint64_t number = 0;  // in the chain
  std::atomic<PublicationNode*> next{nullptr};
};

// Where one core is. Written by the core, read by control; a line of its own.
struct alignas(64) PublicationReader {
  // The core has done all that `node` says, and uses nothing older any more.
  void pass_to(const PublicationNode* node) noexcept {
    at = node;
    adopted.store(node->publication.version, std::memory_order_release);
    passed.store(node->number, std::memory_order_release);
  }

  const PublicationNode* at = nullptr;    // core only
  std::atomic<std::uint64_t> adopted{0};  // version of `at`
  std::atomic<std::uint64_t> passed{0};   // number of `at`: it and what follows must live
};

// Owner: control.
class PublicationChain {
 public:
  // readers: outlive the chain; each starts at the empty table, version 0.
  PublicationChain(const jobs::Box& box, std::vector<PublicationReader*> readers);
  PublicationChain(const PublicationChain&) = delete;
  PublicationChain& operator=(const PublicationChain&) = delete;
  ~PublicationChain();  // no core may follow it any more

  // Appends, and frees what every core has passed. publication.table must not be null.
  void publish(jobs::Publication publication);
  // Appends one that changes no table. ways: of each core.
  void exchange(std::vector<dpdk::PortWays> ways);
  // The version that every core has reached.
  [[nodiscard]] std::uint64_t adopted() const noexcept;

 private:
  void append(PublicationNode* node);

  jobs::Box box_;
  std::vector<PublicationReader*> readers_;
  PublicationNode* oldest_ = nullptr;
  PublicationNode* newest_ = nullptr;
};

}  // namespace tally::io
