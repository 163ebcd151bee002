// The face of a Table.

#include "tally/kv_table.h"

#include "kv/node_impl.h"
#include "kv/table_worker.h"

namespace tally::kv {
namespace {

// The box, if this table may have hot keys. All workers come to the same answer, as their tables begin and end in one order.
std::shared_ptr<HotPath> hot_path_of(Node& node, const std::shared_ptr<BoxPath>& box,
                                     const TableOptions& options) {
  if (box == nullptr || !may_have_hot_keys(options, node.options().workers)) return nullptr;
  return BoxPath::lend(box, options.age != std::chrono::milliseconds(0));
}

}  // namespace

Table::Table(const TableOptions& options) : Table(Node::process(), options) {}
Table::Table(Node& node, const TableOptions& options)
    : impl_(make_table(node, options, hot_path_of(node, node.impl_->box(), options))) {}
Table::~Table() = default;

void Table::pull(std::span<const Key> keys, std::span<float> rows) { impl_->pull(keys, rows); }
void Table::push(std::span<const Key> keys, std::span<const float> gradients) {
  impl_->push(keys, gradients);
}
void Table::close() { impl_->close(); }
const TableOptions& Table::options() const noexcept { return impl_->options(); }
TableStatistics Table::statistics() const { return impl_->statistics(); }

}  // namespace tally::kv
