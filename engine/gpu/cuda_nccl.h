// The NCCL library of the node, which computes sums between the cards of ranks.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/gpu/device.h"

namespace paddle::device {

struct NcclApi {
  std::string path;
  int version = 0;  // from ncclGetVersion(): 22809 is 2.28.9

  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommGetAsyncError) get_async_error = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
};

// Sets variables of this process's environment that NCCL reads, unless the user has set them: no
// port for its RAS service, which would answer any process of the node, and calls that only begin
// an operation, whatever a file nccl.conf says. REQUIRES: the process has no other thread.
void set_nccl_environment();

// kResource: no folder has it. kVersion: it is not NCCL 2, or lacks a function.
Result<NcclApi> load_nccl(const std::vector<std::string>& folders);

Result<CommunicatorId> make_nccl_id(const NcclApi& api);
// Begins to join with the current card. `card` is its name in messages. kUsage: NCCL_COMM_BLOCKING
// would have calls wait, with no deadline.
Result<std::unique_ptr<Communicator>> begin_nccl_join(const NcclApi& api, const std::string& card,
                                                      const CommunicatorId& id, std::uint32_t rank,
                                                      std::uint32_t ranks, const std::string& name);

}  // namespace paddle::device
