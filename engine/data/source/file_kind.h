// Names of files whose bytes are not the lines of text that they should be.
#pragma once

#include <string_view>

#include "base/result.h"

namespace paddle::data {

// "gzip", "zstd", "bzip2" or "xz" for the first bytes of such a file; "" of another.
std::string_view compression_of(std::string_view head);

// The bytes at the head of a file of records: kData says that they are compressed, UTF-16, or a
// file of a spreadsheet or of another program, and what to do.
Status check_is_text(std::string_view head);

}  // namespace paddle::data
