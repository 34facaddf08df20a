// Matrix products of a card by cuBLASLt. An algorithm is chosen once for each form of a product,
// and every stream has scratch memory of its own, so that two runs give the same bits.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/gpu/device.h"

namespace paddle::device {

// The cuBLASLt library of the node: the functions that products need.
struct LtApi {
  std::string path;
  std::size_t version = 0;  // from cublasLtGetVersion()

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

// kResource: no folder has the library. kVersion: it has another major version than the headers
// that this program is built with, or lacks a function.
Result<LtApi> load_lt(const std::vector<std::string>& folders);

class Products {
 public:
  // Products on the current card.
  static Result<std::unique_ptr<Products>> create(const LtApi& api);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  Status multiply(cudaStream_t stream, const Product& product);
  // Releases the scratch memory of the stream. REQUIRES: the stream has run all its commands.
  void forget(cudaStream_t stream);

 private:
  struct Plan;
  using Key = std::array<std::uint64_t, 9>;

  Products(const LtApi& api, cublasLtHandle_t handle);
  static Key key_of(const Product& product);
  Result<Plan*> plan_for(const Product& product);
  Status choose(const Product& product, Plan& plan) const;
  Status layouts_of(const Product& product, Plan& plan) const;
  Result<void*> scratch_of(cudaStream_t stream);
  Status status(cublasStatus_t status, const char* call) const;

  const LtApi api_;
  const cublasLtHandle_t handle_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  std::map<cudaStream_t, void*> scratch_;
};

}  // namespace paddle::device
