// Matrix products of a card by cuBLASLt. An algorithm is chosen once for each form of a product, so
// that two runs give the same bits.
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

// The product's form for messages: "a product of 512 x 400 and 400 x 1".
std::string form_of(const Product& product);

class Products {
 public:
  // NVIDIA's advice for its large cards. Every stream has scratch memory of its own.
  static constexpr std::size_t kScratchBytes = std::size_t{32} << 20U;

  // Products on the current card.
  static Result<std::unique_ptr<Products>> create(const LtApi& api);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // `scratch`: kScratchBytes of the card's memory that only this stream uses.
  Status multiply(cudaStream_t stream, void* scratch, const Product& product);

 private:
  struct Plan;
  using Key = std::array<std::uint64_t, 9>;

  Products(const LtApi& api, cublasLtHandle_t handle);
  static Key key_of(const Product& product);
  // The form's plan. Of too many, the one that was used longest ago is forgotten.
  Result<Plan*> plan_for(const Product& product);
  Status choose(const Product& product, Plan& plan) const;
  Status layouts_of(const Product& product, Plan& plan) const;
  Status status(cublasStatus_t status, const char* call) const;

  const LtApi api_;
  const cublasLtHandle_t handle_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  std::uint64_t uses_ = 0;
};

}  // namespace paddle::device
