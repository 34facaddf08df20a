// Warp whose lanes run by themselves, in any order between two of its functions. A kernel in which
// a lane reads what another one wrote gives other results than on a HostWarp.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "engine/math/card_shape.h"

namespace paddle::kernels::device {

// ThreadSanitizer does not follow a thread that changes its stack.
#if defined(__SANITIZE_THREAD__)
constexpr bool kHasLanes = false;
#else
constexpr bool kHasLanes = true;
#endif

// The thread's time, which the lanes share: in each phase every lane runs once, up to its end or
// to the next function of the warp.
class LaneTurns {
 public:
  LaneTurns(std::uint64_t seed, std::function<void(std::size_t lane)> lane)
      : lane_(std::move(lane)), rng_(seed) {}

  void run() {
    static const auto stacks =
        std::make_unique_for_overwrite<std::array<std::byte, kStackBytes>[]>(kWarpLanes);
    for (std::size_t number = 0; number < kWarpLanes; ++number) {
      ucontext_t& context = contexts_[number];
      PADDLE_CHECK(getcontext(&context) == 0);
      context.uc_stack.ss_sp = stacks[number].data();
      context.uc_stack.ss_size = kStackBytes;
      running = this;
      makecontext(&context, begin, 0);
    }
    shuffle();
    PADDLE_CHECK(swapcontext(&caller_, &contexts_[order_[0]]) == 0);
  }

  // Returns in the next phase.
  void wait_for_all() { give_turn(contexts_[order_[position_]]); }

 private:
  static constexpr std::size_t kStackBytes = 256 << 10U;
  inline static LaneTurns* running = nullptr;

  static void begin() {
    LaneTurns& turns = *running;
    turns.lane_(turns.order_[turns.position_]);
    ++turns.ended_;
    ucontext_t nowhere{};
    turns.give_turn(nowhere);
  }
  void give_turn(ucontext_t& from) {
    if (++position_ == kWarpLanes) {
      // All end in the same phase: a function of a warp is called by all of its lanes.
      PADDLE_CHECK(ended_ == 0 || ended_ == kWarpLanes);
      if (ended_ == kWarpLanes) setcontext(&caller_);
      shuffle();
    }
    ucontext_t& next = contexts_[order_[position_]];
    if (&next != &from) PADDLE_CHECK(swapcontext(&from, &next) == 0);
  }
  void shuffle() {
    position_ = 0;
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    for (std::size_t i = kWarpLanes; i > 1; --i) std::swap(order_[i - 1], order_[rng_.below(i)]);
  }

  std::function<void(std::size_t)> lane_;
  Rng rng_;
  ucontext_t caller_{};
  std::array<ucontext_t, kWarpLanes> contexts_{};
  std::array<std::size_t, kWarpLanes> order_{};
  std::size_t position_ = 0;
  std::size_t ended_ = 0;
};

class Lane {
 public:
  using Slots = std::array<std::array<double, kWarpLanes>, 2>;

  Lane(std::size_t number, LaneTurns& turns, Slots& slots)
      : number_(number), turns_(turns), slots_(slots) {}

  template <class F>
  void each(std::size_t count, F f) const {
    for (std::size_t i = number_; i < count; i += kWarpLanes) f(i);
  }
  template <class Term>
  float sum(std::size_t count, Term term) const {
    return reduce<float>(count, 0.0F, term, [](float a, float b) { return a + b; });
  }
  template <class Term>
  double sum_double(std::size_t count, Term term) const {
    return reduce<double>(count, 0.0, term, [](double a, double b) { return a + b; });
  }
  template <class T, class Term, class Join>
  T reduce(std::size_t count, T none, Term term, Join join) const {
    T own = none;
    for (std::size_t i = number_; i < count; i += kWarpLanes) own = join(own, term(i));
    // Two sets by turns, because a lane may be at its next one before another has read this one.
    auto& of = slots_[phase_++ % 2];
    of[number_] = static_cast<double>(own);
    turns_.wait_for_all();
    std::array<T, kWarpLanes> all;
    std::transform(of.begin(), of.end(), all.begin(), [](double x) { return static_cast<T>(x); });
    for (std::size_t half = kWarpLanes / 2; half > 0; half /= 2) {
      for (std::size_t k = 0; k < half; ++k) all[k] = join(all[k], all[k + half]);
    }
    return all[0];
  }
  template <class F>
  void once(F f) const {
    if (number_ == 0) f();
  }
  bool is_last(std::uint32_t* counter, std::size_t warps) const {
    turns_.wait_for_all();  // all lanes have written
    const auto count = [=](std::size_t) {
      if (++*counter != warps) return 0.0F;
      *counter = 0;
      return 1.0F;
    };
    return sum(1, count) != 0;
  }

 private:
  std::size_t number_;
  LaneTurns& turns_;
  Slots& slots_;
  mutable std::size_t phase_ = 0;
};

template <class K>
void run_in_lanes(const K& kernel, std::uint64_t seed) {
  Lane::Slots slots{};
  LaneTurns* of_lanes = nullptr;
  LaneTurns turns(seed, [&](std::size_t number) {
    const Lane lane(number, *of_lanes, slots);
    for (std::size_t i = 0; i < kernel.count(); ++i) kernel(lane, i);
  });
  of_lanes = &turns;
  turns.run();
}

}  // namespace paddle::kernels::device
