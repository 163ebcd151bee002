#pragma once
// A broken invariant ends the process: TALLY_CHECK in every build (cold code and the reference execution),
// TALLY_DCHECK in debug builds only (hot code).

#include <cstdio>
#include <cstdlib>

namespace tally {

[[noreturn]] inline void broken_invariant(const char* what, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, what);
  std::abort();
}

}  // namespace tally

#define TALLY_CHECK(condition, what) \
  static_cast<void>((condition) || (::tally::broken_invariant(what, __FILE__, __LINE__), false))

#ifdef NDEBUG
#define TALLY_DCHECK(condition, what) static_cast<void>(sizeof(condition))
#else
#define TALLY_DCHECK(condition, what) TALLY_CHECK(condition, what)
#endif
