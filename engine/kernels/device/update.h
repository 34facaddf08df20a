// Kernel of a card for one update of many parameters by their optimizer. Its results are the CPU's,
// bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/kernels/device/shape.h"
#include "engine/optim/update_rules.h"

namespace paddle::kernels::device {

struct UpdatedParameter {
  std::size_t first = 0;  // elements of the parameters before it
  optim::Step step;
  float* value = nullptr;
  const float* gradient = nullptr;
  float* state = nullptr;        // planes in the order of the step's rule
  std::size_t plane_stride = 0;  // floats from one plane to the next
  float* average = nullptr;      // of the value; null: none
  float average_weight = 0;
  // The update writes 1 where a value or its state is no longer finite.
  std::uint32_t not_finite = 0;
};

// One thread an element.
struct Update {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t size = 0;                   // elements of all parameters
  std::size_t parameters = 0;             // at least 1
  UpdatedParameter* parameter = nullptr;  // in the card's memory; none is empty

  PADDLE_HD std::size_t count() const { return size; }
  PADDLE_HD void operator()(std::size_t index) const {
    const std::size_t number = parameter_of(index);
    const UpdatedParameter& of = parameter[number];
    const std::size_t i = index - of.first;
    optim::Largest largest;
    optim::with_rule(of.step.formula, of.step, Element{of, i, largest});
    if (of.average != nullptr) {
      of.average[i] = optim::moved_average(of.average_weight, of.value[i], of.average[i]);
      largest.raise(of.average[i]);
    }
    if (!largest.is_finite()) parameter[number].not_finite = 1;
  }

 private:
  struct Element {
    const UpdatedParameter& of;
    std::size_t i;
    optim::Largest& largest;

    template <class Rule>
    PADDLE_HD_INLINE void operator()(const Rule& rule) const {
      constexpr auto kPlanes = static_cast<int>(Rule::kPlanes);
      optim::State state{};
      float* const planes = of.state + i;
      for (int p = 0; p < kPlanes; ++p)
        state[p] = planes[static_cast<std::size_t>(p) * of.plane_stride];
      const float value = optim::updated(of.step.k, rule, of.value[i], of.gradient[i], state);
      of.value[i] = value;
      largest.raise(value);
      for (int p = 0; p < kPlanes; ++p) {
        planes[static_cast<std::size_t>(p) * of.plane_stride] = state[p];
        largest.raise(state[p]);
      }
    }
  };

  // The last one that begins at or before the element.
  PADDLE_HD std::size_t parameter_of(std::size_t index) const {
    std::size_t low = 0;
    std::size_t high = parameters;
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      if (parameter[middle].first <= index) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

}  // namespace paddle::kernels::device
