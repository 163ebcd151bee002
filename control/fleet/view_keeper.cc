#include "fleet/view_keeper.h"

#include <utility>

namespace tally::fleet {

ViewKeeper::~ViewKeeper() {
  if (watch_) errands_.store().unwatch(*watch_);
}

void ViewKeeper::tick(TimeNs now) {
  if (asking_ || now < next_) return;
  if (watch_)
    audit(now);
  else
    read(now);
}

void ViewKeeper::read(TimeNs now) {
  asking_ = true;
  errands_.ask(Read{{view_.keys().root(), true}}, now + kPatience,
               [this](const Errands::Result& result, TimeNs at) {
                 asking_ = false;
                 next_ = at + (result ? kAudit : kRetry);
                 if (!result) return;
                 view_.reset(result->pairs, result->revision);
                 watch_ = errands_.store().watch(view_.keys().root(), result->revision + 1);
                 behind_ = 0;
                 ++reads_;
               });
}

void ViewKeeper::audit(TimeNs now) {
  asking_ = true;
  errands_.ask(Read{{view_.keys().root(), true}, true}, now + kPatience,
               [this, before = view_.revision()](const Errands::Result& result, TimeNs at) {
                 asking_ = false;
                 if (result && watch_) judge(*result, before);
                 // The watch may have ended meanwhile.
                 next_ = !watch_ ? at : at + (result ? kAudit : kRetry);
               });
}

void ViewKeeper::heard(Revision answered, Revision asked_at, TimeNs now) {
  if (watch_ && answered < asked_at) read_anew(now);
}

void ViewKeeper::judge(const Reply& reply, Revision asked_at) {
  heard(reply.revision, asked_at, 0);
  if (!watch_) return;
  const Revision newest = reply.pairs.empty() ? 0 : reply.pairs.front().modified;
  // What the view went beyond since says nothing; and what is under way gets until the next look.
  const bool missing =
      newest > view_.revision() || (reply.revision >= view_.revision() && reply.count != view_.size());
  if (!missing) {
    behind_ = 0;
    return;
  }
  if (behind_ != 0 && view_.revision() <= behind_) return read_anew(0);
  behind_ = view_.revision() == 0 ? 1 : view_.revision();
}

void ViewKeeper::read_anew(TimeNs now) {
  if (watch_) errands_.store().unwatch(*watch_);
  watch_.reset();
  next_ = now;
}

void ViewKeeper::give(const Changes& changes) {
  if (watch_ == changes.watch) view_.apply(changes.changes, changes.revision);
}

void ViewKeeper::give(const WatchOver& over, TimeNs now) {
  if (watch_ == over.watch) read_anew(now);
}

}  // namespace tally::fleet
