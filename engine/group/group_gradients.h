// The gradients of all dense parameters of one rank, in the array that a group adds up.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/client/batch_parameters.h"
#include "engine/group/group.h"
#include "engine/group/group_layout.h"

namespace paddle::strategy {

class GroupGradients {
 public:
  // REQUIRES: the set is valid. It outlives the gradients. `ranks` is the size of the group.
  GroupGradients(const wire::ParameterSet& set, std::uint32_t ranks)
      : set_(set), layout_(set, ranks) {}

  const GroupLayout& layout() const { return layout_; }
  void allocate(collective::Group& group);
  // Sets the places of the gradients in the array. kUsage: no such dense parameter.
  Status place(std::span<client::DenseParameter> parameters);
  // Copies gradients that are elsewhere to their places, and writes zeros for parameters without a
  // gradient. Returns the name of the first parameter with a gradient that would make its values
  // infinite, or "".
  Result<std::string> take(std::span<client::DenseParameter> parameters);

  std::span<float> part(ElementRange range) {
    return all_.floats().subspan(range.begin, range.size());
  }
  std::span<float> bucket(std::size_t number) { return part(layout_.bucket(number)); }
  // All gradients, if they are small enough for the group's begin_step() to carry; else an empty
  // span.
  std::span<float> carried();

 private:
  Result<ElementRange> range_of(const client::DenseParameter& parameter) const;

  const wire::ParameterSet& set_;
  GroupLayout layout_;
  collective::BucketMemory all_;
};

}  // namespace paddle::strategy
