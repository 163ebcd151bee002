// The face of a Table.

#include "tally/kv_table.h"

#include "kv/node_impl.h"
#include "kv/table_worker.h"

namespace tally::kv {
namespace {

std::shared_ptr<HotPath> hot_path_of(const std::shared_ptr<BoxPath>& box) {
  return box != nullptr && box->can_sum_hot() ? box : nullptr;
}

}  // namespace

Table::Table(const TableOptions& options) : Table(Node::process(), options) {}
Table::Table(Node& node, const TableOptions& options)
    : impl_(std::make_unique<TableWorker>(node, options, hot_path_of(node.impl_->box()))) {}
Table::~Table() = default;

void Table::pull(std::span<const Key> keys, std::span<float> rows) { impl_->pull(keys, rows); }
void Table::push(std::span<const Key> keys, std::span<const float> gradients) {
  impl_->push(keys, gradients);
}
void Table::close() { impl_->close(); }
const TableOptions& Table::options() const noexcept { return impl_->options(); }
TableStatistics Table::statistics() const { return impl_->statistics(); }

}  // namespace tally::kv
