#include "io/publication_chain.h"

#include <algorithm>
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
  auto* const node = new PublicationNode(std::move(publication), box_, newest_);
  newest_->next.store(node, std::memory_order_release);
  newest_ = node;
  // A core that has reached a version reads nothing older any more.
  const std::uint64_t reached = adopted();
  while (oldest_->publication.version < reached)
    delete std::exchange(oldest_, oldest_->next.load(std::memory_order_relaxed));
}

}  // namespace tally::io
