// Checks that need only the beginning of a data file, or a dictionary. They run before anything is
// pushed, and again where the data is read.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/config/data_config.h"

namespace paddle::config {

// Whether the line of a csv file consists of the columns' names, in their order.
bool names_columns(std::string_view line, const DataConfig& data);
// Whether a line with the names of csv columns cannot be a record, because a slot reads a number
// from one of the columns.
bool names_are_no_record(const DataConfig& data);
// kUsage: the first line of a csv file, its header, does not name the columns.
Status check_header(std::string_view line, const DataConfig& data);

// kData: the dictionary of a format that looks words up has a line that cannot be a word of a text,
// or does not end with <unk>. `folder` is the folder of job.toml.
Status check_dictionary(const DataConfig& data, const std::string& folder);

}  // namespace paddle::config
