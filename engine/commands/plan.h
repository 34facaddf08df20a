// `paddle plan`: which port would hold what, without starting anything.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/trainer/options.h"

namespace paddle::commands {

struct PlanOptions {
  trainer::TrainOptions train;     // what `paddle train` would be given
  std::vector<std::string> names;  // of the pservers, for people; none: their hosts
  bool json = false;
};

// A table for people, or one JSON object:
// {"ports":[{"port":"10.0.0.1:7164","node":"n-0","kind":"dense","bytes":65536}],
//  "blocks":[{"parameter":"_fc.w0","block":0,"begin":0,"elements":8192,"bytes":32768,
//             "port":"10.0.0.1:7164"}],
//  "tables":[{"parameter":"_proj","width":32,"row_bytes":128}]}
// Bytes are values and the optimizer's state; a table's rows go to all sparse ports by their id.
// kUsage as for `paddle train`.
Result<std::string> describe_plan(const PlanOptions& options);

}  // namespace paddle::commands
