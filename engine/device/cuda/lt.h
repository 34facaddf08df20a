// cuBLASLt of the node: the calls that products need.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace paddle::device {

struct LtApi {
  std::string path;
  std::size_t version = 0;  // as cublasLtGetVersion gives it

  decltype(&cublasLtGetVersion) get_version = nullptr;
  decltype(&cublasLtGetStatusString) status_string = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) make_matmul = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_matmul = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_matmul = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) make_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) make_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
};

// kResource: no folder has it. kVersion: it is of another major version than the headers that this
// program is built with, or has not all the calls.
Result<LtApi> load_lt(const std::vector<std::string>& folders);

}  // namespace paddle::device
