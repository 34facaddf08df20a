// CUDA's runtime, cuBLASLt and NCCL in place of theirs, for tests of CudaDevice on a machine
// without a card: the calls that it makes, with the failures that a test asks for. Nothing is
// computed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <set>

#include "engine/gpu/cuda_nccl.h"
#include "engine/gpu/cuda_products.h"

namespace paddle::test {

struct FakeRuntime {
  // Set by a test.
  cudaError_t opens = cudaSuccess;  // result of cudaSetDevice()
  std::size_t memory_left = std::size_t{1} << 40U;
  bool hangs = false;        // commands that are given from now on never end
  std::size_t fails_at = 0;  // the command with this number, from 1 on, breaks the card
  cublasStatus_t algorithm_state = CUBLAS_STATUS_SUCCESS;
  ncclResult_t nccl_state = ncclSuccess;

  // Counted as the device makes its calls.
  std::size_t waits_for_ever = 0;  // calls that wait for the whole card while it hangs
  std::size_t commands = 0;
  std::size_t products = 0;
  std::size_t choices = 0;       // of a product's algorithm
  std::size_t descriptions = 0;  // of products, that exist
  const char* communicator_name = nullptr;

  cudaError_t last = cudaSuccess;  // as cudaGetLastError() returns it
  cudaError_t broken = cudaSuccess;
  std::map<cudaStream_t, bool> streams;  // whether it hangs
  std::map<void*, std::size_t> memory;
  std::set<void*> graphs;
};

// The one of the process, as new after a reset.
FakeRuntime& runtime();
void reset_runtime();

device::LtApi fake_lt();
device::NcclApi fake_nccl();

}  // namespace paddle::test
