// PADDLE_CHECK: an invariant only a bug can break. Stays on in release builds.
#pragma once

namespace paddle {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace paddle

#define PADDLE_CHECK(condition)                               \
  do {                                                        \
    if (!(condition)) [[unlikely]]                            \
      ::paddle::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)
