// A rank of a group of processes that share one card, for tests of the library for sums.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace paddle::test {

struct SumsOptions {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::string id_file;  // rank 0 writes the communicator's id, and the others read it
  // The last rank kills itself after the first sum; the others must find that out.
  bool last_dies = false;
};

// Joins, computes two sums and checks them. Prints a line for each sum, with a hash of its bits.
Status sum_with_others(const SumsOptions& options);

}  // namespace paddle::test
