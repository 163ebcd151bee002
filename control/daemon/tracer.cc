#include "daemon/tracer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "config/diagnostic.h"
#include "tally/counters.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

tl::unexpected<Error> unknown(const std::string& what, const std::string& name,
                              const std::vector<std::string>& names) {
  const std::string near = config::nearest(name, names);
  return fail(ErrorCode::kInvalidArgument,
              "there is no " + what + " " + config::shown(name) +
                  (near.empty() ? ", but " + text::listed(names) : "; did you mean " + near + "?"));
}

}  // namespace

Result<io::TraceFilter> Tracer::filter_of(const api::TraceWish& wish) const {
  io::TraceFilter filter{.any_drop = wish.drop == "any", .every = wish.every};
  if (wish.way != "both") filter.way = wish.way == "in" ? io::TraceWay::kIn : io::TraceWay::kOut;
  if (!wish.job.empty()) {
    // Of two of that name the newer one.
    for (const auto& [id, job] : jobs_.jobs()) {
      if (job.name == wish.job) filter.job = id;
    }
    if (!filter.job) return fail(ErrorCode::kInvalidArgument, "there is no job " + config::shown(wish.job));
  }
  if (!wish.port.empty()) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < plane_.ports(); ++i) {
      const PortIndex port{static_cast<std::uint16_t>(i)};
      names.push_back(plane_.port_name(port));
      if (names.back() == wish.port) filter.port = port;
    }
    if (!filter.port) return unknown("port", wish.port, names);
  }
  if (!wish.drop.empty() && !filter.any_drop) {
    const auto found = std::ranges::find(kDropNames, wish.drop);
    if (found == kDropNames.end())
      return unknown("reason", wish.drop, {kDropNames.begin(), kDropNames.end()});
    filter.drop = static_cast<Drop>(found - kDropNames.begin());
  }
  if (!wish.drop.empty() && wish.way == "out")
    return fail(ErrorCode::kInvalidArgument, "nothing that leaves is dropped: leave drop out, or way");
  return filter;
}

Result<void> Tracer::start(const api::TraceWish& wish, TimeNs now, std::uint64_t unix_ns) {
  if (status_.running) return fail(ErrorCode::kInvalidArgument, "a trace runs already: trace.stop ends it");
  auto filter = filter_of(wish);
  if (!filter) return tl::unexpected<Error>(std::move(filter.error()));
  if (auto begun = plane_.begin_trace(*filter); !begun) return begun;
  status_ = {.running = true, .wish = wish};
  unix_ns_ = unix_ns;
  until_ = now + wish.seconds * kSecond;
  read_at_ = now;
  return {};
}

void Tracer::end(const std::string& why) {
  if (!status_.running) return;
  plane_.end_trace();
  status_.running = false;
  status_.ended = why;
}

void Tracer::turn(TimeNs now) {
  if (!status_.running) return;
  if (now >= until_) return end("its time is over");
  if (now >= read_at_ + kPatience) end("nobody reads it");
}

api::TraceStatus Tracer::status() const {
  api::TraceStatus now = status_;
  now.lost = status_.wish.frames == 0 ? 0 : plane_.trace_lost();
  return now;
}

std::string Tracer::job_name(std::uint16_t id) const {
  const auto job = jobs_.jobs().find(JobId{id});
  return job == jobs_.jobs().end() ? std::to_string(id) : job->second.name;
}

std::string Tracer::comment_of(const io::TracedFrame& frame) const {
  std::string text = "core " + std::to_string(frame.core) + ": ";
  if (frame.out) {
    text += "sent";
  } else if (frame.verdict == Verdict::kDrop) {
    const DropReason& reason = kDropReasons.at(static_cast<std::size_t>(frame.drop));
    text.append("dropped, ").append(reason.name);
  } else {
    text += name_of(frame.verdict);
    if (frame.verdict == Verdict::kHandOver) text += " to core " + std::to_string(frame.owner);
  }
  if (frame.job != 0) text += ", job " + job_name(frame.job);
  if (!frame.out && frame.verdict == Verdict::kDrop)
    text.append(". ").append(kDropReasons.at(static_cast<std::size_t>(frame.drop)).sentence);
  return text;
}

api::TraceBatch Tracer::read(TimeNs now) {
  api::TraceBatch batch;
  read_at_ = now;
  io::TracedFrame frame;
  while (batch.frames.size() < api::kTraceBatch && status_.read < status_.wish.frames &&
         plane_.next_traced(frame)) {
    ++status_.read;
    const std::size_t captured = std::min<std::size_t>(frame.captured, frame.bytes.size());
    batch.frames.push_back({.unix_ns = frame.time + unix_ns_,
                            .port = plane_.port_name(PortIndex{frame.port}),
                            .out = frame.out,
                            .length = frame.length,
                            .comment = comment_of(frame),
                            .bytes = {frame.bytes.begin(), frame.bytes.begin() + captured}});
  }
  if (status_.read >= status_.wish.frames) end("it has as many frames as were wanted");
  batch.status = status();
  return batch;
}

}  // namespace tally::daemon
