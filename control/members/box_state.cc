#include "box_state.h"

namespace tally {

Epoch BoxState::draw_epoch() {
  return source.epoch([this](Epoch candidate) {
    for (const auto& job : jobs) {
      if (job == nullptr) continue;
      for (const Epoch e : {job->term.epoch, job->offer.epoch, job->gone.term.epoch}) {
        if (e == candidate) return true;
      }
    }
    return false;
  });
}

}  // namespace tally
