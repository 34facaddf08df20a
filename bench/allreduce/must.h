// Ends the program if a result is an error.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "base/result.h"

namespace paddle::bench {

inline void must(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result) must(Status(result.error()));
  return *std::move(result);
}

}  // namespace paddle::bench
