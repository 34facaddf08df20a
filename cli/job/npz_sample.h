// The arrays of a numpy .npz file as the columns of a TableSample.
#pragma once

#include <string>

#include "cli/job/table_sample.h"

namespace paddle::cli {

// Reads the first numbers of each array. Arrays that no slot can read, such as texts and Python
// objects, get the reason. kData: the file is a zip archive of another kind, such as a spreadsheet,
// is cut off, or has arrays of different numbers of records.
Result<TableSample> sample_npz(const std::string& path, const std::string& shown);

}  // namespace paddle::cli
