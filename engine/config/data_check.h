// Checks of data that need only the beginning of a file, or a dictionary: they are made before
// anything is pushed, and again where the data is read.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/config/data_config.h"

namespace paddle::config {

// Whether the line of a csv file names the columns, in their order.
bool names_columns(std::string_view line, const DataConfig& data);
// Whether a line that names the columns of csv can be no record, because a slot reads a number
// where a name stands.
bool names_are_no_record(const DataConfig& data);
// kUsage: the first line of a csv file, which is a header, does not name the columns.
Status check_header(std::string_view line, const DataConfig& data);

// kData: the dictionary of a format that looks words up has a line that no word of a text can be,
// or does not end with <unk>. The folder is that of job.toml.
Status check_dictionary(const DataConfig& data, const std::string& folder);

}  // namespace paddle::config
