#include "engine/gpu/cuda_products.h"

#include <algorithm>
#include <utility>

#include "engine/gpu/cuda_errors.h"
#include "engine/gpu/cuda_kernels.h"
#include "engine/gpu/cuda_library.h"

namespace paddle::device {
namespace {

// Some 60 products for each of the shapes that DeviceExecutor keeps; a plan takes below 1 KiB.
constexpr std::size_t kPlansMax = 4096;
constexpr std::uint64_t kAlignmentMax = 256;  // alignment of memory from cudaMalloc()

// The largest power of two, up to kAlignmentMax, that divides the address.
std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bits & (~bits + 1), kAlignmentMax));
}

bool has_fused_end(const Product& product) {
  return product.bias != nullptr || product.relu;
}

cublasLtEpilogue_t end_of(const Product& product) {
  if (product.bias == nullptr) {
    return product.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
  }
  return product.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
}

cublasComputeType_t compute_of(Precision precision) {
  return precision == Precision::kTensorFloat32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

Status cuda_status(cudaError_t error, const Product& product) {
  if (error == cudaSuccess) return {};
  return Error{Errc::kFailed, form_of(product) + ": " + text_of(error)};
}

}  // namespace

std::string form_of(const Product& product) {
  return "a product of " + std::to_string(product.m) + " x " + std::to_string(product.k) + " and " +
         std::to_string(product.k) + " x " + std::to_string(product.n);
}

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

// A product as cuBLASLt computes it. The library's matrices are column-major, so it reads our
// row-major a, b and c as their transposes, and computes transpose(c) = transpose(b) transpose(a).
struct Products::Plan {
  explicit Plan(const LtApi& of) : api(of) {}
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {first, second, result}) {
      if (layout != nullptr) api.destroy_layout(layout);
    }
    if (matmul != nullptr) api.destroy_matmul(matmul);
    if (preference != nullptr) api.destroy_preference(preference);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const LtApi& api;
  cublasLtMatmulDesc_t matmul = nullptr;
  cublasLtMatrixLayout_t first = nullptr;
  cublasLtMatrixLayout_t second = nullptr;
  cublasLtMatrixLayout_t result = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  bool is_fused = true;         // the library applies bias and relu
  std::uint64_t last_used = 0;  // Products::uses_ then
};

Products::Products(const LtApi& api, cublasLtHandle_t handle) : api_(api), handle_(handle) {}

Products::~Products() {
  plans_.clear();
  api_.destroy(handle_);
}

Result<std::unique_ptr<Products>> Products::create(const LtApi& api) {
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t status = api.create(&handle); status != CUBLAS_STATUS_SUCCESS) {
    return Error{Errc::kResource, "cublasLtCreate: " + std::string(api.status_string(status))};
  }
  return std::unique_ptr<Products>(new Products(api, handle));
}

Status Products::multiply(cudaStream_t stream, void* scratch, const Product& product) {
  if (product.m == 0 || product.n == 0) return {};
  if (product.k > 0) {
    PADDLE_TRY(Plan* const plan, plan_for(product));
    if (plan->is_fused && product.bias != nullptr) {
      PADDLE_TRY_STATUS(status(api_.set_matmul(plan->matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                               &product.bias, sizeof product.bias),
                               "the bias"));
    }
    const float one = 1;
    const float kept = product.accumulate ? 1 : 0;
    PADDLE_TRY_STATUS(
        status(api_.matmul(handle_, plan->matmul, &one, product.b, plan->first, product.a,
                           plan->second, &kept, product.c, plan->result, product.c, plan->result,
                           &plan->algorithm, scratch, kScratchBytes, stream),
               "cublasLtMatmul")
            .with(form_of(product)));
    if (plan->is_fused) return {};
  } else if (!product.accumulate) {
    PADDLE_TRY_STATUS(cuda_status(cudaMemset2DAsync(product.c, product.c_stride * sizeof(float), 0,
                                                    product.n * sizeof(float), product.m, stream),
                                  product));
  }
  // Applies bias and relu if the library cannot, which is rare.
  const kernels::device::Rows rows{product.c, product.c_stride};
  if (product.bias != nullptr) {
    return cuda_status(
        launch_kernel(stream, kernels::device::AddBias{product.m, product.n, product.bias, rows,
                                                       product.relu}),
        product);
  }
  for (std::size_t i = 0; product.relu && i < product.m; ++i) {
    PADDLE_TRY_STATUS(cuda_status(
        launch_kernel(stream, kernels::device::Activate{product.n, kernels::device::Function::kRelu,
                                                        rows.row(i), rows.row(i)}),
        product));
  }
  return {};
}

Products::Key Products::key_of(const Product& product) {
  const auto bit = [](bool value) { return value ? std::uint64_t{1} : 0; };
  const std::uint64_t form = bit(product.transpose_a) | bit(product.transpose_b) << 1U |
                             bit(product.accumulate) << 2U | bit(product.bias != nullptr) << 3U |
                             bit(product.relu) << 4U |
                             static_cast<std::uint64_t>(product.precision) << 5U;
  const std::uint64_t aligned = std::uint64_t{alignment_of(product.a)} |
                                std::uint64_t{alignment_of(product.b)} << 20U |
                                std::uint64_t{alignment_of(product.c)} << 40U;
  return {form,
          product.m,
          product.n,
          product.k,
          product.a_stride,
          product.b_stride,
          product.c_stride,
          aligned,
          alignment_of(product.bias)};
}

Result<Products::Plan*> Products::plan_for(const Product& product) {
  const Key key = key_of(product);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    auto plan = std::make_unique<Plan>(api_);
    PADDLE_TRY_STATUS(layouts_of(product, *plan).with(form_of(product)));
    PADDLE_TRY_STATUS(choose(product, *plan).with(form_of(product)));
    if (plans_.size() == kPlansMax) {
      plans_.erase(std::ranges::min_element(
          plans_, {}, [](const auto& entry) { return entry.second->last_used; }));
    }
    found = plans_.emplace(key, std::move(plan)).first;
  }
  found->second->last_used = ++uses_;
  return found->second.get();
}

Status Products::layouts_of(const Product& product, Plan& plan) const {
  const cudaDataType_t factors =
      product.precision == Precision::kBfloat16 ? CUDA_R_16BF : CUDA_R_32F;
  const auto layout = [&](cublasLtMatrixLayout_t& of, cudaDataType_t type, std::size_t rows,
                          std::size_t width, std::size_t stride) {
    return status(api_.make_layout(&of, type, width, rows, static_cast<std::int64_t>(stride)),
                  "a layout");
  };
  const auto rows_of = [](bool transposed, std::size_t rows, std::size_t width) {
    return transposed ? std::pair(width, rows) : std::pair(rows, width);
  };
  const auto [b_rows, b_width] = rows_of(product.transpose_b, product.k, product.n);
  const auto [a_rows, a_width] = rows_of(product.transpose_a, product.m, product.k);
  PADDLE_TRY_STATUS(layout(plan.first, factors, b_rows, b_width, product.b_stride));
  PADDLE_TRY_STATUS(layout(plan.second, factors, a_rows, a_width, product.a_stride));
  return layout(plan.result, CUDA_R_32F, product.m, product.n, product.c_stride);
}

Status Products::choose(const Product& product, Plan& plan) const {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return status(api_.set_matmul(plan.matmul, attribute, &value, sizeof value), "an attribute");
  };
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return status(api_.set_preference(plan.preference, attribute, &value, sizeof value),
                  "a preference");
  };
  const auto turned = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  PADDLE_TRY_STATUS(status(
      api_.make_matmul(&plan.matmul, compute_of(product.precision), CUDA_R_32F), "a description"));
  PADDLE_TRY_STATUS(set(CUBLASLT_MATMUL_DESC_TRANSA, turned(product.transpose_b)));
  PADDLE_TRY_STATUS(set(CUBLASLT_MATMUL_DESC_TRANSB, turned(product.transpose_a)));
  PADDLE_TRY_STATUS(status(api_.make_preference(&plan.preference), "preferences"));
  PADDLE_TRY_STATUS(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kScratchBytes));
  PADDLE_TRY_STATUS(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(product.b)));
  PADDLE_TRY_STATUS(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(product.a)));
  PADDLE_TRY_STATUS(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(product.c)));
  PADDLE_TRY_STATUS(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(product.c)));
  // Tries to find an algorithm with bias and relu, then one without.
  for (plan.is_fused = true;; plan.is_fused = false) {
    const cublasLtEpilogue_t end = plan.is_fused ? end_of(product) : CUBLASLT_EPILOGUE_DEFAULT;
    PADDLE_TRY_STATUS(set(CUBLASLT_MATMUL_DESC_EPILOGUE, end));
    const void* const bias = plan.is_fused ? product.bias : nullptr;
    PADDLE_TRY_STATUS(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t chosen =
        api_.choose(handle_, plan.matmul, plan.first, plan.second, plan.result, plan.result,
                    plan.preference, 1, &best, &found);
    // The result's other fields are valid only with its own state.
    const bool is_found = chosen == CUBLAS_STATUS_SUCCESS && found > 0;
    if (is_found && best.state == CUBLAS_STATUS_SUCCESS) {
      plan.algorithm = best.algo;
      return {};
    }
    if (!plan.is_fused || !has_fused_end(product)) {
      return status(chosen == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : chosen,
                    "cublasLtMatmulAlgoGetHeuristic");
    }
  }
}

Status Products::status(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return Error{Errc::kFailed, std::string(call) + ": " + api_.status_string(status)};
}

}  // namespace paddle::device
