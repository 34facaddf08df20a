// Kernels of a card for one update by an optimizer: of many dense parameters, and of the rows of a
// table that a batch reads. Their results equal the CPU's, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/math/card_shape.h"
#include "engine/math/update_rules.h"

namespace paddle::kernels::device {

// An element of a dense parameter or of a table's row.
struct UpdatedElement {
  float* value = nullptr;
  float gradient = 0;
  float* state = nullptr;        // in the first plane; planes as in the step's rule
  std::size_t plane_stride = 0;  // floats from one plane to the next
  float* average = nullptr;      // average of the value; null: none
  float average_weight = 0;

  // Applies the step. False if the new value, its state or its average is not finite.
  PADDLE_HD_INLINE bool update(const optim::Step& step) const {
    optim::Largest largest;
    optim::with_rule(step.formula, step, Rule{*this, step, largest});
    if (average != nullptr) {
      *average = optim::moved_average(average_weight, *value, *average);
      largest.raise(*average);
    }
    return largest.is_finite();
  }

 private:
  struct Rule {
    const UpdatedElement& of;
    const optim::Step& step;
    optim::Largest& largest;

    template <class Of>
    PADDLE_HD_INLINE void operator()(const Of& rule) const {
      static_assert(Of::kPlanes <= optim::kPlanesMax);
      constexpr auto kPlanes = static_cast<int>(Of::kPlanes);
      optim::State planes{};
      for (int p = 0; p < kPlanes; ++p)
        planes[p] = of.state[static_cast<std::size_t>(p) * of.plane_stride];
      const float moved = optim::updated(step.k, rule, *of.value, of.gradient, planes);
      *of.value = moved;
      largest.raise(moved);
      for (int p = 0; p < kPlanes; ++p) {
        of.state[static_cast<std::size_t>(p) * of.plane_stride] = planes[p];
        largest.raise(planes[p]);
      }
    }
  };
};

struct UpdatedParameter {
  std::size_t first = 0;  // number of elements in the parameters before it
  optim::Step step;
  float* value = nullptr;
  const float* gradient = nullptr;
  float* state = nullptr;        // planes in the order of the step's rule
  std::size_t plane_stride = 0;  // floats from one plane to the next
  float* average = nullptr;      // average of the value; null: none
  float average_weight = 0;
  // The update sets it to 1 if a new value, its state or its average is not finite.
  std::uint32_t not_finite = 0;
};

// Updates many dense parameters, with one thread for each element.
struct Update {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t size = 0;                   // elements of all parameters
  std::size_t parameters = 0;             // at least 1
  UpdatedParameter* parameter = nullptr;  // in the card's memory; no parameter is empty

  PADDLE_HD std::size_t count() const { return size; }
  PADDLE_HD void operator()(std::size_t index) const {
    const std::size_t number = parameter_of(index);
    const UpdatedParameter& of = parameter[number];
    const std::size_t i = index - of.first;
    const UpdatedElement element{of.value + i,
                                 of.gradient[i],
                                 of.state + i,
                                 of.plane_stride,
                                 of.average == nullptr ? nullptr : of.average + i,
                                 of.average_weight};
    if (!element.update(of.step)) parameter[number].not_finite = 1;
  }

 private:
  // The last parameter that begins at or before element `index`.
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

// The part of a row's step that depends on how many updates the row has had.
struct RowStep {
  float rate = 0;
  float correction1 = 1;
  float correction2 = 1;
  float average_weight = 0;
};

// Counts an update of each row of a batch, with one thread for each row.
struct CountUpdates {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  const std::uint32_t* numbers = nullptr;  // numbers of the rows in the table, all different
  optim::Step step;                        // UpdateRule::unnumbered_step()
  bool counts = false;                     // the formula needs the number of updates
  optim::AverageWindow average;
  std::uint32_t* updates = nullptr;  // one for each row of the table
  RowStep* steps = nullptr;          // one for each row of the batch

  PADDLE_HD std::size_t count() const { return rows; }
  PADDLE_HD void operator()(std::size_t index) const {
    std::uint32_t& so_far = updates[numbers[index]];
    if (so_far < 0xffffffffU) ++so_far;  // does not overflow: more updates change nothing
    optim::Step own = step;
    if (counts) optim::set_number(own, so_far);
    steps[index] = {own.k.rate, own.correction1, own.correction2,
                    average.fraction > 0 ? average.weight(so_far) : 0.0F};
  }
};

// Updates the rows of a table that a batch reads, with one thread for each element.
struct UpdateRows {
  static constexpr Shape kShape = Shape::kThreads;
  std::size_t rows = 0;
  std::size_t width = 0;
  const std::uint32_t* numbers = nullptr;  // numbers of the rows in the table, all different
  optim::Step step;
  const RowStep* steps = nullptr;    // one for each row; null: `step` is for all rows
  const float* gradients = nullptr;  // rows x width
  float* values = nullptr;           // the whole table
  float* state = nullptr;            // planes of the whole table
  std::size_t plane_stride = 0;
  float* averages = nullptr;            // null: none
  std::uint32_t* not_finite = nullptr;  // set to 1 if a value or its state is not finite

  PADDLE_HD std::size_t count() const { return rows * width; }
  PADDLE_HD void operator()(std::size_t index) const {
    const Position at = position_of(index, width);
    const std::size_t i = numbers[at.row] * width + at.column;
    optim::Step own = step;
    float average_weight = 0;
    if (steps != nullptr) {
      const RowStep& of = steps[at.row];
      own.k.rate = of.rate;
      own.correction1 = of.correction1;
      own.correction2 = of.correction2;
      average_weight = of.average_weight;
    }
    const UpdatedElement element{values + i,
                                 gradients[index],
                                 state + i,
                                 plane_stride,
                                 averages == nullptr ? nullptr : averages + i,
                                 average_weight};
    if (!element.update(own)) *not_finite = 1;
  }
};

}  // namespace paddle::kernels::device
