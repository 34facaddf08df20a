// Products of OpenBLAS, which gemm() uses where it has no kernel of its own.
#include <cblas.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/math/gemm.h"
#include "tests/unit/engine/math/reference.h"

namespace paddle::kernels {
namespace {

// The names of OpenBLAS for kernels that this CPU can run, beginning with the oldest ones.
std::vector<std::string> kernel_sets() {
#if defined(__x86_64__)
  std::vector<std::string> sets = {"Prescott", "Core2"};
  if (__builtin_cpu_supports("sse4.2")) sets.emplace_back("Nehalem");
  if (__builtin_cpu_supports("avx")) sets.emplace_back("Sandybridge");
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    sets.emplace_back("Haswell");
    sets.emplace_back("Zen");
  }
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    sets.emplace_back("SkylakeX");
  }
  return sets;
#else
  return {};
#endif
}

void multiply(bool a_flipped, bool b_flipped, std::size_t m, std::size_t n, std::size_t k) {
  const auto a = reference::random_floats(m * k, 1);
  const auto b = reference::random_floats(k * n, 2);
  auto c = reference::random_floats(m * n, 3);
  const std::vector<double> da(a.begin(), a.end());
  const std::vector<double> db(b.begin(), b.end());
  std::vector<double> dc(c.begin(), c.end());
  const auto size = [](std::size_t value) { return static_cast<blasint>(value); };
  cblas_sgemm(CblasRowMajor, a_flipped ? CblasTrans : CblasNoTrans,
              b_flipped ? CblasTrans : CblasNoTrans, size(m), size(n), size(k), 1.0F, a.data(),
              size(a_flipped ? m : k), b.data(), size(b_flipped ? k : n), 1.0F, c.data(), size(n));
  reference::gemm(a_flipped ? Transpose::kYes : Transpose::kNo,
                  b_flipped ? Transpose::kYes : Transpose::kNo, m, n, k, da.data(), db.data(), true,
                  dc.data());
  for (std::size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], dc[i], 1e-4) << m << n << k;
}

}  // namespace

TEST(OpenBlas, MultipliesEveryShape) {
  const char* const asked = std::getenv("OPENBLAS_CORETYPE");
  if (asked != nullptr) {
    EXPECT_STRCASEEQ(openblas_get_corename(), asked);
  }
  const std::size_t shapes[][3] = {{1, 1, 1},   {1, 300, 70},  {300, 1, 70}, {7, 5, 9},
                                   {16, 16, 4}, {130, 70, 40}, {65, 9, 700}, {400, 130, 400}};
  for (const auto& [m, n, k] : shapes) {
    for (const bool a_flipped : {false, true}) {
      for (const bool b_flipped : {false, true}) multiply(a_flipped, b_flipped, m, n, k);
    }
  }
}

// Also on a CPU that is newer than this OpenBLAS.
TEST(OpenBlas, UsesTheKernelsThatTheCpuCanRun) {
  const std::vector<std::string> sets = kernel_sets();
  if (sets.empty()) GTEST_SKIP() << "OpenBLAS chooses on this machine";
  const std::string best = sets.back() == "Zen" ? "Haswell" : sets.back();
  if (best == "SkylakeX" || best == "Haswell") {
    EXPECT_STRCASEEQ(openblas_get_corename(), best.c_str());
  }
}

// A program contains the kernels for all CPUs, but only those of float32 products
// (cmake/OpenblasKernels.cmake).
TEST(OpenBlas, HasTheKernelsOfAllCpus) {
  for (const std::string& name : kernel_sets()) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::setenv("OPENBLAS_CORETYPE", name.c_str(), 1);
      ::execl("/proc/self/exe", "math_test", "--gtest_filter=OpenBlas.MultipliesEveryShape",
              "--gtest_brief=1", nullptr);
      ::_exit(127);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << name << ": " << status;
  }
}

}  // namespace paddle::kernels
