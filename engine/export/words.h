// Words for the rows of a parameter.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/snapshot/reader.h"

namespace paddle::exporting {

// By id from 0 on: the lines of the file `given`, or of the dictionary in the snapshot if that is
// "". The snapshot's are for tables and for dense parameters with a row for each word; none where
// there is no dictionary. Blanks in a word become '_', which formats of words in lines need.
// kUsage: the snapshot has only the hash of its dictionary; kData: `given` cannot be read or has
// another.
Result<std::vector<std::string>> words_of(const snapshot::SnapshotReader& snapshot,
                                          const wire::ParameterSpec& parameter,
                                          const std::string& given);

}  // namespace paddle::exporting
