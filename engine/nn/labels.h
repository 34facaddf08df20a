// The right answers that costs and evaluators compare with: a slot of ids or of floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "engine/nn/run.h"

namespace paddle::nn {

class Builder;

class Labels {
 public:
  // Of the key 'label' of the layer or evaluator that is being built, for an input of `width`.
  // kUsage: it is missing, a float slot of another width, or not one of `only_ids`.
  static Result<Labels> make(const Builder& builder, std::size_t width, bool only_ids = false);

  bool are_floats() const { return are_floats_; }
  // The class of an example: the only id of a slot of ids, below `width`; kData unless it is.
  Result<std::uint64_t> one(const Run& run, std::size_t example) const;
  // 0 or 1 for each of `width` outputs: the floats of the slot, or the only id where width is 1, or
  // 1 at each id of the example and 0 elsewhere. kData unless they are.
  Status binary(const Run& run, std::size_t example, float* out) const;
  // A number for each output: the floats of the slot, or the only id where width is 1.
  Status numbers(const Run& run, std::size_t example, float* out) const;

 private:
  Error error(std::string message, std::string hint = "") const;
  Result<std::uint64_t> only_id(const Run& run, std::size_t example) const;

  std::string owner_;  // for messages
  std::string name_;
  std::size_t slot_ = 0;
  std::size_t width_ = 0;
  bool are_floats_ = false;
};

}  // namespace paddle::nn
