// Memory for matrix products (gemm.h) of several threads.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace paddle::kernels {

// Makes sure of it: where there is too little, OpenBLAS would try again for ever. kResource.
Status reserve_products(std::size_t threads);

}  // namespace paddle::kernels
