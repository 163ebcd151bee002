#include "api/trace.h"

#include <utility>

namespace tally::api {
namespace {

std::string hexadecimal(const std::vector<std::byte>& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    out += kDigits[std::to_integer<unsigned>(b) >> 4U];
    out += kDigits[std::to_integer<unsigned>(b) & 15U];
  }
  return out;
}

}  // namespace

Json to_json(const TraceStatus& status) {
  const TraceWish& w = status.wish;
  return {{"running", status.running},
          {"ended", status.ended.empty() ? Json(nullptr) : Json(status.ended)},
          {"read", status.read},
          {"lost", status.lost},
          {"wish",
           {{"job", w.job},
            {"port", w.port},
            {"way", w.way},
            {"drop", w.drop},
            {"every", w.every},
            {"frames", w.frames},
            {"seconds", w.seconds}}}};
}

Json to_json(const TraceBatch& batch) {
  Json frames = Json::array();
  for (const TraceFrame& f : batch.frames)
    frames.push_back({{"unix_ns", f.unix_ns},
                      {"port", f.port},
                      {"way", f.out ? "out" : "in"},
                      {"length", f.length},
                      {"comment", f.comment},
                      {"bytes", hexadecimal(f.bytes)}});
  Json out = to_json(batch.status);
  out["frames"] = std::move(frames);
  return out;
}

}  // namespace tally::api
