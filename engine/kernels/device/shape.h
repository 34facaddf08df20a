// Shapes of the kernels of a card, and the warps that they are written for. A kernel is a struct
// of its arguments, which a launch copies; it never fails and holds pointers to memory of the
// card alone. Its operator() is compiled for the host too, where tests run it.
//
// Each of a warp's 32 lanes runs operator(), as far ahead of the others as it likes between two
// calls of the warp's functions. Lane k is given the indices k, k + 32, ... by every one of them,
// so a lane may read what it wrote itself for an index; nothing here reads what another one wrote,
// unless is_last() came between.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/multiversion.h"

namespace paddle::kernels::device {

constexpr std::size_t kWarpLanes = 32;

enum class Shape {
  kThreads,  // void operator()(std::size_t index) const, for each index below count()
  kWarps,  // template <class Warp> void operator()(const Warp&, std::size_t index) const, likewise
};

// Row and column of element `index` of a block of `width` columns.
struct Position {
  std::size_t row;
  std::size_t column;
};
PADDLE_HD_INLINE Position position_of(std::uint32_t index, std::size_t width) {
  if (width > index) return {0, index};
  const std::uint32_t row = index / static_cast<std::uint32_t>(width);
  return {row, index - row * static_cast<std::uint32_t>(width)};
}
PADDLE_HD_INLINE Position position_of(std::size_t index, std::size_t width) {
  // A card divides 32 bits several times as fast as 64.
  if (index > 0xffffffffU) return {index / width, index % width};
  return position_of(static_cast<std::uint32_t>(index), width);
}

// First value of a block of columns, and the floats from one row to the next.
struct ConstRows {
  const float* first = nullptr;
  std::size_t stride = 0;
  PADDLE_HD_INLINE const float* row(std::size_t index) const { return first + index * stride; }
  PADDLE_HD_INLINE const float& at(const Position& at) const { return row(at.row)[at.column]; }
};
struct Rows {
  float* first = nullptr;
  std::size_t stride = 0;
  PADDLE_HD_INLINE float* row(std::size_t index) const { return first + index * stride; }
  PADDLE_HD_INLINE float& at(const Position& at) const { return row(at.row)[at.column]; }
};

PADDLE_HD_INLINE void put(float value, bool accumulate, float& to) {
  to = accumulate ? to + value : value;
}

// Warp of the host: its lanes take turns. Sums have the order of kernels::lane_sum, as those of a
// card's warp have, so the bits are equal.
class HostWarp {
 public:
  // f(i) for each i below count, by its lane.
  template <class F>
  void each(std::size_t count, F f) const {
    for (std::size_t i = 0; i < count; ++i) f(i);
  }
  // term(0) + ... + term(count - 1), each called once, by its lane: its terms are added in order,
  // then lane k + 16 to lane k, k + 8 to k, and so on. Every lane gets the sum.
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
  // True for the last of the `warps` warps that call it with this counter, in whatever order they
  // run: it sees all that the others wrote before they called. The counter is 0 before the first
  // and after the last.
  bool is_last(std::uint32_t* counter, std::size_t warps) const {
    if (++*counter != warps) return false;
    *counter = 0;
    return true;
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
