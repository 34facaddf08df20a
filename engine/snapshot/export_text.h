// Export of a snapshot's parameter as text: "<row id> <value> <value> ..." a line, rows by rising
// id.
#pragma once

#include <cstdio>

#include "base/result.h"

namespace paddle::snapshot {

// A row of a dense parameter is its last dimension. kData: the parameter is unknown (with a
// suggestion), or the snapshot is not complete. kResource: writing failed.
Status export_text(const std::string& snapshot, const std::string& parameter, std::FILE* out);

}  // namespace paddle::snapshot
