// Shapes of the kernels of a card, and the warps that they are written for. A kernel is a struct
// of its arguments, which a launch copies; it never fails and holds pointers to memory of the
// card alone. Its operator() is compiled for the host too, where tests run it.
#pragma once

#include <cstddef>

#include "engine/kernels/host_device.h"

namespace paddle::kernels::device {

constexpr std::size_t kWarpLanes = 32;

enum class Shape {
  kThreads,  // void operator()(std::size_t index) const, for each index below count()
  kWarps,  // template <class Warp> void operator()(const Warp&, std::size_t index) const, likewise
};

// Warp of the host: its lanes take turns. Sums have the order of kernels::lane_sum, as those of a
// card's warp have, so the bits are equal.
class HostWarp {
 public:
  // f(i) for each i below count, in any order.
  template <class F>
  void each(std::size_t count, F f) const {
    for (std::size_t i = 0; i < count; ++i) f(i);
  }
  // term(0) + ... + term(count - 1) in lanes; every lane gets it.
  template <class Term>
  float sum(std::size_t count, Term term) const {
    return lanes<float>(count, term, 0.0F, [](float a, float b) { return a + b; });
  }
  template <class Term>
  double sum_double(std::size_t count, Term term) const {
    return lanes<double>(count, term, 0.0, [](double a, double b) { return a + b; });
  }
  // join(...) of all terms; `join` is associative and commutative up to equal bits, `none` is its
  // identity.
  template <class T, class Term, class Join>
  T reduce(std::size_t count, T none, Term term, Join join) const {
    return lanes<T>(count, term, none, join);
  }
  // f() once.
  template <class F>
  void once(F f) const {
    f();
  }

 private:
  template <class T, class Term, class Join>
  T lanes(std::size_t count, Term term, T none, Join join) const {
    T of[kWarpLanes];
    for (T& one : of) one = none;
    for (std::size_t i = 0; i < count; ++i) of[i % kWarpLanes] = join(of[i % kWarpLanes], term(i));
    for (std::size_t half = kWarpLanes / 2; half > 0; half /= 2) {
      for (std::size_t k = 0; k < half; ++k) of[k] = join(of[k], of[k + half]);
    }
    return of[0];
  }
};

}  // namespace paddle::kernels::device
