// PADDLE_CHECK ends the program if an invariant does not hold, which only a bug can cause. Release
// builds check it, too.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace paddle {

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: internal error: check failed: %s\n", file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace paddle

#define PADDLE_CHECK(condition)                               \
  do {                                                        \
    if (!(condition)) [[unlikely]]                            \
      ::paddle::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)
