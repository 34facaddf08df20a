// For tests of products in bfloat16 on CPUs where float32 is as fast, so that gemm() would use
// that.
#pragma once

#include "engine/math/gemm.h"

namespace paddle::kernels {

// Makes gemm() compute bfloat16 by the CPU's tile units, or by its vectors. False: it has neither.
inline bool use_bfloat16() {
  for (const Kernel kernel : {Kernel::kBfloat16Tiles, Kernel::kBfloat16Vectors}) {
    if (!has_kernel(kernel)) continue;
    use_kernel(Compute::kBfloat16, kernel);
    return true;
  }
  return false;
}

}  // namespace paddle::kernels
