// How often an id was shown and clicked on: what a table that shrinks keeps of each row.
#pragma once

#include "proto/parameters.pb.h"

namespace paddle::parameter {

struct RowScore {
  float shows = 0;
  float clicks = 0;

  bool is_zero() const { return shows == 0 && clicks == 0; }
  // The end of a pass.
  void decay(float by) {
    shows *= by;
    clicks *= by;
  }
  // ShrinkPolicy in proto/parameters.proto.
  float value(const wire::ShrinkPolicy& policy) const {
    return policy.nonclick_coefficient() * (shows - clicks) + policy.click_coefficient() * clicks;
  }
};
static_assert(sizeof(RowScore) == 2 * sizeof(float));

}  // namespace paddle::parameter
