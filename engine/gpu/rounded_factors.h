// The factors of a plan's products that a card reads in bfloat16. Several products read the same
// matrix: a layer's inputs are read forward and for the gradient of its weights, its weights are
// read forward and for the gradient of its inputs, and the gradient of its outputs is read twice.
// So each matrix has a rounded copy, which is written once, and again only after an op has changed
// the matrix.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "engine/nn/plan.h"

namespace paddle::nn {

// Rounds a number of bfloat16 values up to a multiple of 16 bytes: a card's bfloat16 units need
// arrays that begin at such addresses.
constexpr std::size_t padded(std::size_t values) {
  return (values + 7) / 8 * 8;
}

// A product of so few columns is computed in float32, by a kernel of its own.
bool is_thin(const op::Gemm& gemm);

class RoundedFactors {
 public:
  // `plan` must outlive the object and stay where it is.
  explicit RoundedFactors(const Plan& plan);

  // A copy. Each row is padded to a multiple of 16 bytes. With `pads_rows`, rows of zeros are added
  // too, because a product sums over the rows.
  struct Copy {
    Region from;
    std::size_t rows = 0;  // may be op::kRows
    std::size_t width = 0;
    bool pads_rows = false;

    // Values of the copy in a run of `run_rows` rows.
    std::size_t size(std::size_t run_rows) const;
  };
  const std::vector<Copy>& copies() const { return copies_; }

  // One factor of a product.
  struct Factor {
    std::size_t copy = 0;
    bool is_written = false;  // by an earlier product of the run, and still equal to its matrix
  };
  struct Factors {
    Factor a;
    Factor b;
  };
  // REQUIRES: `gemm` is an op of the plan, and not thin.
  const Factors& of(const op::Gemm& gemm) const { return by_op_.at(&gemm); }

 private:
  std::size_t copy_of(const Region& from, std::size_t rows, std::size_t width, bool pads_rows);

  std::vector<Copy> copies_;
  std::map<const op::Gemm*, Factors> by_op_;
};

}  // namespace paddle::nn
