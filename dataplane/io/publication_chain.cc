#include "io/publication_chain.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tally/check.h"

namespace tally::io {

PublicationChain::PublicationChain(const jobs::Box& box, std::vector<PublicationReader*> readers)
    : box_(box), readers_(std::move(readers)) {
  jobs::Publication empty;
  empty.table = std::make_shared<const jobs::JobTable>();
  oldest_ = newest_ = new PublicationNode(std::move(empty), box_, nullptr);
  for (PublicationReader* reader : readers_) reader->at = oldest_;
}

PublicationChain::~PublicationChain() {
  while (oldest_ != nullptr) delete std::exchange(oldest_, oldest_->next.load(std::memory_order_relaxed));
}

std::uint64_t PublicationChain::adopted() const noexcept {
  std::uint64_t version = newest_->publication.version;
  for (const PublicationReader* reader : readers_)
    version = std::min(version, reader->adopted.load(std::memory_order_acquire));
  return version;
}

void PublicationChain::publish(jobs::Publication publication) {
  TALLY_CHECK(publication.table != nullptr && publication.version > newest_->publication.version,
              "publications have a table and a growing version");
  append(new PublicationNode(std::move(publication), box_, newest_));
}

void PublicationChain::exchange(std::vector<dpdk::PortWays> ways) {
  jobs::Publication same;
  same.version = newest_->publication.version;
  same.table = newest_->publication.table;
  auto node = std::make_unique<PublicationNode>(std::move(same), box_, newest_);
  node->ways = std::move(ways);
  append(node.release());
}

void PublicationChain::append(PublicationNode* node) {
  node->number = newest_->number + 1;
  newest_->next.store(node, std::memory_order_release);
  newest_ = node;
  // A core that has passed a node reads nothing older any more.
  std::uint64_t passed = node->number;
  for (const PublicationReader* reader : readers_)
    passed = std::min(passed, reader->passed.load(std::memory_order_acquire));
  while (oldest_->number < passed)
    delete std::exchange(oldest_, oldest_->next.load(std::memory_order_relaxed));
}

}  // namespace tally::io
