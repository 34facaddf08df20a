// A parameter of a snapshot as text: "<row id> <value> <value> ..." a line, rows by rising id.
#pragma once

#include <cstdio>
#include <string>

#include "base/result.h"

namespace paddle::snapshot {

// Dense parameters are written by rows of their last dimension. kData: no such parameter (with a
// suggestion), or the snapshot is not whole. kResource: writing failed.
Status export_text(const std::string& snapshot, const std::string& parameter, std::FILE* out);

}  // namespace paddle::snapshot
