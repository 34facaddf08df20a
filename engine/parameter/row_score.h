// Shows and clicks of an id, which a table that shrinks keeps for each row.
#pragma once

#include "proto/parameters.pb.h"

namespace paddle::parameter {

struct RowScore {
  float shows = 0;
  float clicks = 0;

  bool is_zero() const { return shows == 0 && clicks == 0; }
  // Called at the end of a pass.
  void decay(float by) {
    shows *= by;
    clicks *= by;
  }
  // The formula is at ShrinkPolicy in proto/parameters.proto.
  float value(const wire::ShrinkPolicy& policy) const {
    return policy.nonclick_coefficient() * (shows - clicks) + policy.click_coefficient() * clicks;
  }
};
static_assert(sizeof(RowScore) == 2 * sizeof(float));

}  // namespace paddle::parameter
