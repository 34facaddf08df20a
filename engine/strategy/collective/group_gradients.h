// The gradients of all dense parameters of one rank, in the array that a group adds up.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/client/batch_parameters.h"
#include "engine/collective/group.h"
#include "engine/strategy/collective/group_layout.h"

namespace paddle::strategy {

class GroupGradients {
 public:
  // The set is valid, and outlives the gradients. `ranks` of the group.
  GroupGradients(const wire::ParameterSet& set, std::uint32_t ranks)
      : set_(set), layout_(set, ranks) {}

  const GroupLayout& layout() const { return layout_; }
  void allocate(collective::Group& group);
  // Gives the gradients their places in the array. kUsage: no such dense parameter.
  Status place(std::span<client::DenseParameter> parameters);
  // Puts gradients in their places that are elsewhere, zeros where there are none. Returns the name
  // of the first parameter with a gradient that would make its values infinite, or "".
  Result<std::string> take(std::span<client::DenseParameter> parameters);

  std::span<float> part(ElementRange range) {
    return all_.floats().subspan(range.begin, range.size());
  }
  std::span<float> bucket(std::size_t number) { return part(layout_.bucket(number)); }
  // All of them, which begin_step() of the group carries because they are small; else none.
  std::span<float> carried();

 private:
  Result<ElementRange> range_of(const client::DenseParameter& parameter) const;

  const wire::ParameterSet& set_;
  GroupLayout layout_;
  collective::BucketMemory all_;
};

}  // namespace paddle::strategy
