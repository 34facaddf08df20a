#include "engine/device/cuda/lt.h"

#include "engine/device/cuda/library.h"

namespace paddle::device {
Result<LtApi> load_lt(const std::vector<std::string>& folders) {
  const std::string file = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  PADDLE_TRY(const Library library, Library::open(file, folders));
  LtApi api;
  api.path = library.path();
  PADDLE_TRY_STATUS(library.bind({
      {"cublasLtGetVersion", api.get_version},
      {"cublasLtGetStatusString", api.status_string},
      {"cublasLtCreate", api.create},
      {"cublasLtDestroy", api.destroy},
      {"cublasLtMatmulDescCreate", api.make_matmul},
      {"cublasLtMatmulDescDestroy", api.destroy_matmul},
      {"cublasLtMatmulDescSetAttribute", api.set_matmul},
      {"cublasLtMatrixLayoutCreate", api.make_layout},
      {"cublasLtMatrixLayoutDestroy", api.destroy_layout},
      {"cublasLtMatmulPreferenceCreate", api.make_preference},
      {"cublasLtMatmulPreferenceDestroy", api.destroy_preference},
      {"cublasLtMatmulPreferenceSetAttribute", api.set_preference},
      {"cublasLtMatmulAlgoGetHeuristic", api.choose},
      {"cublasLtMatmul", api.matmul},
  }));
  api.version = api.get_version();
  if (api.version / 10000 == CUBLAS_VER_MAJOR) return api;
  return Error{Errc::kVersion, api.path + " is cuBLASLt " + std::to_string(api.version) +
                                   "; this program needs version " +
                                   std::to_string(CUBLAS_VER_MAJOR) + ".x"};
}

}  // namespace paddle::device
