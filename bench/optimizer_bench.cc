// Memory bandwidth of every optimizer's update: GB/s for a dense block that fits no cache, beside
// the simplest update (a = a / 2 + b) in the same run, and rows per second for a table's width.
// Every result is compared with a float64 reference; the program fails if one is wrong.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/rng.h"
#include "tests/unit/engine/math/optimizer_reference.h"

namespace paddle {
namespace {

constexpr std::size_t kElements = std::size_t{8} << 20U;  // 32 MiB an array
constexpr std::size_t kRowWidth = 16;
constexpr int kRepeats = 5;
constexpr float kRate = 0.01F;
constexpr std::size_t kChecked = 997;  // elements between two that are checked
constexpr double kTolerance = 1e-4;

// CPU time of this thread, so that other processes count less.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The best of several calls.
template <class Step>
double fastest(Step step) {
  double best = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    const double start = cpu_seconds();
    step();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

// Computes in place, as updates do: a third array that is only written would first be read into the
// cache.
double plain_gigabytes(std::vector<float>& a, const std::vector<float>& b) {
  const double seconds = fastest([&] {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = 0.5F * a[i] + b[i];
  });
  return 3e-9 * static_cast<double>(a.size() * sizeof(float)) / seconds;
}

struct Work {
  explicit Work(const std::string& method) {
    optimizer.set_method(method);
    optimizer.set_learning_rate(kRate);
    spec.set_learning_rate(1);
    optimizer.set_l2(1e-4F);
    if (method.find("momentum") != std::string::npos) optimizer.set_momentum(0.9F);
  }
  wire::Optimizer optimizer;
  wire::ParameterSpec spec;
};

// Checks kRepeats equal updates, whole or row by row, against the reference.
bool is_right(const Work& work, const std::vector<float>& gradient,
              const std::vector<float>& value) {
  for (std::size_t i = 0; i < value.size(); i += kChecked) {
    test::ReferenceElement element(work.optimizer, work.spec, 0.5);
    for (int n = 0; n < kRepeats; ++n) {
      element.update(static_cast<double>(kRate), static_cast<double>(gradient[i]));
    }
    if (!(std::abs(element.value() - static_cast<double>(value[i])) < kTolerance)) return false;
  }
  return true;
}

bool measure(const std::string& method, const std::vector<float>& gradient, double plain) {
  const Work work(method);
  const optim::UpdateRule rule(work.optimizer, work.spec);
  const std::size_t planes = rule.state_width();
  std::vector<float> value(kElements, 0.5F);
  std::vector<float> state(kElements * planes, 0.0F);
  std::uint64_t count = 0;
  const double whole = fastest([&] { rule.apply(kRate, ++count, value, gradient, state); });
  const bool is_whole_right = is_right(work, gradient, value);

  std::fill(value.begin(), value.end(), 0.5F);
  std::fill(state.begin(), state.end(), 0.0F);
  count = 0;
  const double rows = fastest([&] {
    ++count;
    for (std::size_t at = 0; at < kElements; at += kRowWidth) {
      rule.apply(kRate, count, std::span(value).subspan(at, kRowWidth),
                 std::span(gradient).subspan(at, kRowWidth),
                 std::span(state).subspan(at * planes, kRowWidth * planes));
    }
  });
  // Value and state are read and written, the gradient is read.
  const double bytes = static_cast<double>(kElements * sizeof(float) * (3 + 2 * planes));
  const double speed = 1e-9 * bytes / whole;
  std::printf("%-16s %2zu planes: %6.2f GB/s, %.2f of it; %6.1f million rows/s of %zu\n",
              method.c_str(), planes, speed, speed / plain,
              1e-6 * static_cast<double>(kElements / kRowWidth) / rows, kRowWidth);
  if (is_whole_right && is_right(work, gradient, value)) return true;
  std::fprintf(stderr, "%s: wrong result\n", method.c_str());
  return false;
}

}  // namespace
}  // namespace paddle

int main() {
  std::vector<float> gradient(paddle::kElements);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>(static_cast<double>(paddle::mix64(i) >> 11U) * 0x1p-53 - 0.5);
  }
  std::vector<float> a(paddle::kElements, 2.0F);
  const std::vector<float> b(paddle::kElements, 1.0F);
  const double plain = paddle::plain_gigabytes(a, b);
  if (a.front() != 2.0F || a.back() != 2.0F) return 1;
  std::printf("a = a / 2 + b: %.2f GB/s\n", plain);
  bool good = true;
  for (const paddle::optim::Method& method : paddle::optim::methods()) {
    good = paddle::measure(std::string(method.name), gradient, plain) && good;
  }
  std::printf("a = a / 2 + b again: %.2f GB/s\n", paddle::plain_gigabytes(a, b));
  return good ? 0 : 1;
}
