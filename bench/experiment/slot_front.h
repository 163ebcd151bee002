#pragma once
// What rows that are no discipline of the product put around the pipeline. A front may mark contributions and
// send finished sums by way of the server; sums, slots, swaps and repairs stay production code.

#include <cstdint>
#include <memory>

#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "setting.h"
#include "tally/wire.h"

namespace tally::experiment {

class SlotFront {
 public:
  SlotFront() = default;
  SlotFront(const SlotFront&) = delete;
  SlotFront& operator=(const SlotFront&) = delete;
  virtual ~SlotFront() = default;

  // A contribution of `job`, before the pipeline. True: the header was changed.
  virtual bool arrives(const jobs::Job& job, Header& header,
                       pipeline::Pipeline<pipeline::Fused>& pipeline) = 0;
  // A chunk whose sum a slot holds complete is about to be sent to workers. True: to the server instead.
  virtual bool finished(const jobs::Job& job, Chunk chunk) = 0;
  // A packet of the server. True: it ends here.
  virtual bool heard(const jobs::Job& job, const Header& header) = 0;
  // Slots that are not free although what they held is finished.
  [[nodiscard]] virtual std::uint32_t held() const noexcept { return 0; }
};

// nullptr: the row has none.
[[nodiscard]] std::unique_ptr<SlotFront> front_of(const Setting& setting, std::uint32_t slots);

}  // namespace tally::experiment
