#include "engine/gpu/cuda_nccl.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "engine/gpu/cuda_library.h"
#include "engine/gpu/device.h"

namespace paddle::device {
namespace {

// It overrides the communicator's own setting.
constexpr const char* kBlocking = "NCCL_COMM_BLOCKING";

// Whether a call did not fail. Calls of a non-blocking communicator return ncclInProgress if they
// continue in the background.
bool has_begun(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const NcclApi& api, std::string card, int index)
      : api_(api), card_(std::move(card)), index_(index) {}

  // Does not destroy a communicator that has failed and was not aborted: that could wait forever.
  // It keeps the pointer to its name.
  ~NcclCommunicator() override {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return;
    if (has_failed_) {
      static_cast<void>(name_.release());
      return;
    }
    cudaSetDevice(index_);
    api_.destroy(comm_);
  }

  Status begin(const CommunicatorId& id, int rank, int ranks, const std::string& name) {
    name_.reset(::strdup(name.c_str()));
    ncclUniqueId unique{};
    static_assert(sizeof unique == sizeof id);
    std::memcpy(&unique, id.data(), id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = name_.get();
    return check(api_.init_rank(&comm_, ranks, unique, rank, &config), "ncclCommInitRankConfig");
  }

  Result<State> poll() override {
    PADDLE_TRY(const ncclComm_t comm, communicator());
    ncclResult_t state = ncclSuccess;
    PADDLE_TRY_STATUS(check(api_.get_async_error(comm, &state), "ncclCommGetAsyncError"));
    PADDLE_TRY_STATUS(check(state, "NCCL"));
    return state == ncclInProgress ? State::kUnderWay : State::kReady;
  }

  Status begin_sum(StreamHandle stream, float* values, std::size_t count) override {
    PADDLE_TRY(const ncclComm_t comm, communicator());
    cudaSetDevice(index_);
    return check(api_.all_reduce(values, values, count, ncclFloat, ncclSum, comm,
                                 static_cast<cudaStream_t>(stream.value)),
                 "ncclAllReduce");
  }

  void abort() override {
    ncclComm_t comm = nullptr;
    {
      const std::lock_guard lock(mutex_);
      comm = std::exchange(comm_, nullptr);
    }
    if (comm == nullptr) return;
    cudaSetDevice(index_);
    api_.abort(comm);
  }

 private:
  Result<ncclComm_t> communicator() {
    const std::lock_guard lock(mutex_);
    if (comm_ != nullptr) return comm_;
    return Error{Errc::kFailed, card_ + ": the NCCL communicator was aborted"};
  }

  Status check(ncclResult_t result, const char* call) {
    if (has_begun(result)) return {};
    const std::lock_guard lock(mutex_);
    has_failed_ = true;
    return Error{Errc::kFailed, card_ + ": " + call + ": " + api_.error_string(result),
                 "set NCCL_DEBUG=WARN for details"};
  }

  const NcclApi api_;
  const std::string card_;
  const int index_;
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  std::unique_ptr<char, Free> name_;
  std::mutex mutex_;  // abort() may run on another thread
  ncclComm_t comm_ = nullptr;
  bool has_failed_ = false;
};

}  // namespace

void set_nccl_environment() {
  constexpr int kKeep = 0;  // the user's values
  ::setenv("NCCL_RAS_ENABLE", "0", kKeep);
  ::setenv(kBlocking, "0", kKeep);
}

Result<NcclApi> load_nccl(const std::vector<std::string>& folders) {
  PADDLE_TRY(const Library library,
             Library::open("libnccl.so." + std::to_string(NCCL_MAJOR), folders));
  NcclApi api;
  api.path = library.path();
  PADDLE_TRY_STATUS(library.bind({
      {"ncclGetVersion", api.get_version},
      {"ncclGetErrorString", api.error_string},
      {"ncclGetUniqueId", api.get_unique_id},
      {"ncclCommInitRankConfig", api.init_rank},
      {"ncclCommGetAsyncError", api.get_async_error},
      {"ncclAllReduce", api.all_reduce},
      {"ncclCommAbort", api.abort},
      {"ncclCommDestroy", api.destroy},
  }));
  if (const ncclResult_t result = api.get_version(&api.version); result != ncclSuccess) {
    return Error{Errc::kResource, api.path + ": " + api.error_string(result)};
  }
  if (api.version / 10000 == NCCL_MAJOR) return api;
  return Error{Errc::kVersion, api.path + " is NCCL " + std::to_string(api.version) +
                                   "; this program needs version " + std::to_string(NCCL_MAJOR) +
                                   ".x"};
}

Result<CommunicatorId> make_nccl_id(const NcclApi& api) {
  ncclUniqueId unique{};
  if (const ncclResult_t result = api.get_unique_id(&unique); result != ncclSuccess) {
    return Error{Errc::kFailed, std::string("ncclGetUniqueId: ") + api.error_string(result),
                 "set NCCL_DEBUG=WARN for details"};
  }
  CommunicatorId id;
  std::memcpy(id.data(), &unique, id.size());
  return id;
}

Result<std::unique_ptr<Communicator>> begin_nccl_join(const NcclApi& api, const std::string& card,
                                                      const CommunicatorId& id, std::uint32_t rank,
                                                      std::uint32_t ranks,
                                                      const std::string& name) {
  const char* const blocking = std::getenv(kBlocking);  // NOLINT: no thread sets variables
  if (blocking != nullptr && std::string_view(blocking) != "0") {
    return Error{Errc::kUsage,
                 std::string(kBlocking) + "=" + escape_control(blocking) +
                     ": a sum whose peer is lost would wait for ever",
                 "unset it, or set it to 0"};
  }
  int index = 0;
  cudaGetDevice(&index);
  auto joining = std::make_unique<NcclCommunicator>(api, card, index);
  PADDLE_TRY_STATUS(joining->begin(id, static_cast<int>(rank), static_cast<int>(ranks), name));
  return std::unique_ptr<Communicator>(std::move(joining));
}

}  // namespace paddle::device
