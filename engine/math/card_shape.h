// Shapes of the kernels of a card, and the warps that they are written for. A kernel is a struct
// of its arguments, which a launch copies; it never fails, and all its pointers are to memory of
// the card. Its operator() is compiled for the host too, where tests run it.
//
// Each of a warp's 32 lanes runs operator(). Between two calls of the warp's functions, some lanes
// may be ahead of others. All of these functions give lane k the indices k, k + 32, ..., so a lane
// may read what it wrote itself for an index. No kernel reads what another lane wrote, unless
// is_last() was called in between.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/multiversion.h"

namespace paddle::kernels::device {

constexpr std::size_t kWarpLanes = 32;
// Loads that a lane starts before it uses the first one. A warp of a card stops at the first use of
// a value that has not arrived, not at its load; and no load may pass an earlier store.
constexpr std::size_t kLoadsAhead = 8;

// Form of a kernel's operator(), which runs for each index below count().
enum class Shape {
  kThreads,  // void operator()(std::size_t index) const
  kWarps,    // template <class Warp> void operator()(const Warp&, std::size_t index) const
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

// Warp on the host, whose lanes run one after the other. Sums have the order of kernels::lane_sum,
// as in a warp of a card, so the bits are equal.
class HostWarp {
 public:
  // Calls f(i) for each i below count, in the lane of i.
  template <class F>
  void each(std::size_t count, F f) const {
    for (std::size_t i = 0; i < count; ++i) f(i);
  }
  // term(0) + ... + term(count - 1), each called once, in its lane. A lane adds its terms in order;
  // then lane k + 16 is added to lane k, lane k + 8 to lane k, and so on. Every lane gets the sum.
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
  // Calls f() in one lane.
  template <class F>
  void once(F f) const {
    f();
  }
  // True in the last of the `warps` warps that call this function with the same counter, in any
  // order. That warp sees all that the other warps wrote before their calls. The counter is 0
  // before the first call and after the last.
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
