#include "fleet/lease_keeper.h"

namespace tally::fleet {

void LeaseKeeper::tick(TimeNs now) {
  if (now < next_) return;
  if (step_ == Step::kIdle) {
    step_ = Step::kGranting;
    errands_.ask(Grant{ttl_}, now + ttl_,
                 [this, now](const Errands::Result& result, TimeNs at) { granted(result, now, at); });
  } else if (step_ == Step::kHeld) {
    step_ = Step::kBeating;
    // A store that is slow gets the whole time of the lease: a second question would only wait behind the first.
    errands_.ask(KeepAlive{lease_}, now + ttl_,
                 [this, now](const Errands::Result& result, TimeNs at) { beaten(result, now, at); });
  }
}

void LeaseKeeper::granted(const Errands::Result& result, TimeNs sent, TimeNs now) {
  if (step_ != Step::kGranting) return;
  step_ = Step::kIdle;
  next_ = now + kRetry;
  if (!result || result->lease == 0) return;
  step_ = Step::kHeld;
  lease_ = result->lease;
  until_ = sent + result->ttl;
  next_ = now + ttl_ / 4;
}

void LeaseKeeper::beaten(const Errands::Result& result, TimeNs sent, TimeNs now) {
  if (step_ != Step::kBeating) return;
  step_ = Step::kHeld;
  if (!result && result.error().fault != Fault::kNoLease) {
    next_ = now + kRetry;
    return;
  }
  if (result && result->ttl > 0) {
    // From when it was asked for: the store's time began after that.
    until_ = sent + result->ttl;
    next_ = now + ttl_ / 4;
    return;
  }
  step_ = Step::kIdle;
  lease_ = 0;
  next_ = now;
  ++lost_;
}

void LeaseKeeper::release(TimeNs now) {
  if (step_ == Step::kReleasing || step_ == Step::kReleased) return;
  if (lease_ == 0) {
    step_ = Step::kReleased;
    return;
  }
  step_ = Step::kReleasing;
  errands_.ask(Revoke{lease_}, now + kSecond,
               [this](const Errands::Result&, TimeNs) { step_ = Step::kReleased; });
  lease_ = 0;
}

}  // namespace tally::fleet
