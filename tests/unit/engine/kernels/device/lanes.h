// Warp whose lanes are threads that run in any order between two of its functions, one at a time.
// A kernel in which a lane reads what another one wrote gives other results than on a HostWarp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "engine/kernels/device/shape.h"

namespace paddle::kernels::device {

// Turns of the lanes: in each phase every lane runs once, up to the next function of the warp.
class LaneTurns {
 public:
  explicit LaneTurns(std::uint64_t seed) : rng_(seed) {
    for (auto& turn : turns_) turn = std::make_unique<std::binary_semaphore>(0);
    shuffle();
    turns_[order_[0]]->release();
  }

  void begin(std::size_t lane) { turns_[lane]->acquire(); }
  // Returns in the next phase.
  void wait_for_all(std::size_t lane) {
    pass();
    turns_[lane]->acquire();
  }
  // All lanes must end in the same phase: a function of a warp is called by all of them.
  void end() {
    ++ended_;
    pass();
  }

 private:
  void pass() {
    if (++position_ == kWarpLanes) {
      PADDLE_CHECK(ended_ == 0 || ended_ == kWarpLanes);
      if (ended_ == kWarpLanes) return;
      shuffle();
    }
    turns_[order_[position_]]->release();
  }
  void shuffle() {
    position_ = 0;
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    for (std::size_t i = kWarpLanes; i > 1; --i) std::swap(order_[i - 1], order_[rng_.below(i)]);
  }

  Rng rng_;
  std::array<std::unique_ptr<std::binary_semaphore>, kWarpLanes> turns_;
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
    turns_.wait_for_all(number_);
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
  void wait_for_all() const { turns_.wait_for_all(number_); }

 private:
  std::size_t number_;
  LaneTurns& turns_;
  Slots& slots_;
  mutable std::size_t phase_ = 0;
};

template <class K>
void run_in_lanes(const K& kernel, std::uint64_t seed) {
  LaneTurns turns(seed);
  Lane::Slots slots{};
  std::vector<std::jthread> threads;
  for (std::size_t number = 0; number < kWarpLanes; ++number) {
    threads.emplace_back([&, number] {
      turns.begin(number);
      const Lane lane(number, turns, slots);
      for (std::size_t i = 0; i < kernel.count(); ++i) {
        kernel(lane, i);
        lane.wait_for_all();
      }
      turns.end();
    });
  }
}

}  // namespace paddle::kernels::device
