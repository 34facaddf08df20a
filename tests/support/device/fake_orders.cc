#include "tests/support/device/fake_orders.h"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "engine/math/gemm.h"
#include "tests/support/device/fake_memory.h"

namespace paddle::test {
namespace {

using device::Precision;
using device::Product;
using kernels::device::HostWarp;
using kernels::device::kWarpLanes;
using kernels::device::Shape;

// Lanes are as far ahead of each other as they may be, the last one first.
struct FakeWarp : HostWarp {
  template <class F>
  void each(std::size_t count, F f) const {
    for (std::size_t lane = kWarpLanes; lane-- > 0;) {
      for (std::size_t i = lane; i < count; i += kWarpLanes) f(i);
    }
  }
};

struct Computation {
  std::uint64_t seed;

  void operator()(const Upload& upload) const { std::memcpy(upload.to, upload.from, upload.bytes); }
  void operator()(const Download& download) const {
    std::memcpy(download.to, download.from, download.bytes);
  }
  void operator()(const kernels::device::Kernel& kernel) const {
    std::visit([&](const auto& each) { run(each); }, kernel);
  }
  void operator()(const Product& product) const;
  void operator()(const Reach& /*mark*/) const {}
  void operator()(const WaitFor& /*mark*/) const {}
  void operator()(const Sum& /*sum*/) const {}

  template <class K>
  void run(const K& kernel) const {
    in_any_order(kernel.count(), seed, [&](std::size_t index) {
      if constexpr (K::kShape == Shape::kThreads) {
        kernel(index);
      } else {
        kernel(FakeWarp(), index);
      }
    });
  }
};

// To 10 bits of mantissa, to the nearest even, as cards read factors of TensorFloat-32.
float as_tensor_float(float x) {
  auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7f800000U) == 0x7f800000U) return x;
  bits += 0xfffU + ((bits >> 13U) & 1U);
  return std::bit_cast<float>(bits & ~0x1fffU);
}

// The factor as packed rows of what a card reads.
std::vector<float> factor(const void* from, std::size_t rows, std::size_t width, std::size_t stride,
                          Precision precision) {
  std::vector<float> packed(rows * width);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < width; ++c) {
      float& to = packed[r * width + c];
      if (precision == Precision::kBfloat16) {
        const auto bits = static_cast<const std::uint16_t*>(from)[r * stride + c];
        to = std::bit_cast<float>(std::uint32_t{bits} << 16U);
      } else {
        to = static_cast<const float*>(from)[r * stride + c];
        if (precision == Precision::kTensorFloat32) to = as_tensor_float(to);
      }
    }
  }
  return packed;
}

void Computation::operator()(const Product& p) const {
  const auto a =
      factor(p.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.a_stride, p.precision);
  const auto b =
      factor(p.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.b_stride, p.precision);
  const auto transpose = [](bool yes) {
    return yes ? kernels::Transpose::kYes : kernels::Transpose::kNo;
  };
  if (p.m == 0 || p.n == 0) return;
  if (p.k > 0) {
    kernels::gemm(kernels::Compute::kFloat32, transpose(p.transpose_a), transpose(p.transpose_b),
                  p.m, p.n, p.k, a.data(), b.data(), p.accumulate, p.c, {}, p.c_stride);
  }
  for (std::size_t r = 0; r < p.m; ++r) {
    for (std::size_t c = 0; c < p.n; ++c) {
      float& to = p.c[r * p.c_stride + c];
      if (p.k == 0 && !p.accumulate) to = 0;
      if (p.bias != nullptr) to += p.bias[c];
      if (p.relu && !(to > 0)) to = 0;  // NaN too
    }
  }
}

// From the first value to the last one's end, of rows that are `stride` values apart.
std::size_t extent(std::size_t rows, std::size_t width, std::size_t stride, std::size_t bytes) {
  if (rows == 0 || width == 0) return 0;
  if (stride < width) violation("rows of a product's operand overlap");
  return ((rows - 1) * stride + width) * bytes;
}

}  // namespace

void visit_pointers(const kernels::device::Kernel& kernel,
                    const std::function<void(const void*)>& visit) {
  std::visit(
      [&]<class K>(K copy) {
        static_assert(std::is_trivially_copyable_v<K> && sizeof(K) % sizeof(void*) == 0);
        // Half an old pointer may lie in padding. Of larger kernels only the last word has some;
        // gcc 12 would clear another.
        constexpr bool kIsLarge = sizeof(K) > 256;
#if defined(__GNUC__) && !defined(__clang__)
        if constexpr (!kIsLarge) __builtin_clear_padding(&copy);
#endif
        std::array<const void*, sizeof(K) / sizeof(void*)> words;
        std::memcpy(words.data(), &copy, sizeof(K));
        if (kIsLarge) words.back() = nullptr;
        // Numbers are below, a float beside a flag or an enumerator too, and patterns of two
        // floats are above.
        constexpr std::uintptr_t kLowest = std::uintptr_t{1} << 36U;
        constexpr std::uintptr_t kHighest = std::uintptr_t{1} << 47U;
        for (const void* word : words) {
          const auto value = reinterpret_cast<std::uintptr_t>(word);
          if (value >= kLowest && value < kHighest) visit(word);
        }
      },
      kernel);
}

bool has_table(const kernels::device::Kernel& kernel) {
  return std::holds_alternative<kernels::device::Update>(kernel);
}

void visit_operands(const Product& p, const std::function<void(const void*, std::size_t)>& visit) {
  const std::size_t bytes = p.precision == Precision::kBfloat16 ? 2 : sizeof(float);
  const auto visit_rows = [&](const void* first, std::size_t extent_bytes) {
    if (extent_bytes > 0) visit(first, extent_bytes);
  };
  visit_rows(p.a, p.transpose_a ? extent(p.k, p.m, p.a_stride, bytes)
                                : extent(p.m, p.k, p.a_stride, bytes));
  visit_rows(p.b, p.transpose_b ? extent(p.n, p.k, p.b_stride, bytes)
                                : extent(p.k, p.n, p.b_stride, bytes));
  visit_rows(p.c, extent(p.m, p.n, p.c_stride, sizeof(float)));
  if (p.bias != nullptr) visit_rows(p.bias, p.n * sizeof(float));
  if (p.c == p.a || p.c == p.b) violation("a product overwrites its factor");
}

void compute(const Command& command, std::uint64_t seed) {
  std::visit(Computation{seed}, command);
}

}  // namespace paddle::test
