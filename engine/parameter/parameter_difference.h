// Why a trainer's parameter set is not the one this shard was set up with.
#pragma once

#include <string>

#include "proto/parameters.pb.h"

namespace paddle::parameter {

// "" when equal; else the first difference with both values: "parameter 'fc.w0' has dims 32x10
// here, 32x12 there".
std::string parameter_difference(const wire::ParameterSet& here, const wire::ParameterSet& there);

}  // namespace paddle::parameter
