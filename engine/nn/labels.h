// Labels that costs and evaluators compare outputs with: a slot of ids or of floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "engine/nn/batch.h"
#include "engine/nn/run.h"

namespace paddle::nn {

class Builder;

class Labels {
 public:
  // Reads the key 'label' of the layer or evaluator being built, whose input has `width` outputs.
  // kUsage: the key is missing, or it names a float slot of another width, or a float slot although
  // `only_ids` is set, or a slot of hashes that are not all below `width`.
  static Result<Labels> make(const Builder& builder, std::size_t width, bool only_ids = false);

  // Conditions on the slot for class_of(), binary() and numbers(). These functions check them
  // again. kUsage: the slot has more names of classes than the input has outputs.
  Result<SlotRule> class_rule(const Builder& builder) const;
  Result<SlotRule> binary_rule(const Builder& builder) const;
  SlotRule number_rule() const;
  // kUsage: the slot has names of classes, so that its ids are indexes of classes and not numbers
  // from the data.
  Status check_no_names(const Builder& builder) const;

  bool are_floats() const { return are_floats_; }
  // Class of an example: the only id of a slot of ids. kData: the example has no id or several ids,
  // or its id is not below `width`.
  Result<std::uint64_t> class_of(const Run& run, std::size_t example) const;
  // Writes 0 or 1 for each of `width` outputs: the floats of the slot, the only id where width is
  // 1, or 1 at each id of the example and 0 elsewhere. kData: another value.
  Status binary(const Run& run, std::size_t example, float* out) const;
  // Writes a number for each output: the floats of the slot, or the only id where width is 1.
  Status numbers(const Run& run, std::size_t example, float* out) const;

 private:
  Status check_names(const Builder& builder, std::size_t classes) const;
  Error error(std::string message, std::string hint = "") const;
  Result<std::uint64_t> only_id(const Run& run, std::size_t example) const;

  std::string owner_, layer_;  // for messages
  std::string name_;
  std::size_t slot_ = 0;
  std::size_t width_ = 0;
  bool are_floats_ = false;
};

}  // namespace paddle::nn
