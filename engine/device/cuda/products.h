// Matrix products of a card by cuBLASLt. An algorithm is chosen once for each form of a product,
// and every stream has scratch memory of its own, so that two runs give the same bits.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "base/result.h"
#include "engine/device/cuda/lt.h"
#include "engine/device/device.h"

namespace paddle::device {

class Products {
 public:
  // For the current card.
  static Result<std::unique_ptr<Products>> create(const LtApi& api);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  Status multiply(cudaStream_t stream, const Product& product);
  // Releases what the stream had; its work is done.
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
