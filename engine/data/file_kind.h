// Kinds of files that are not lines of text, recognised by their first bytes.
#pragma once

#include <string_view>

#include "base/result.h"

namespace paddle::data {

// "gzip", "zstd", "bzip2" or "xz" for the first bytes of such a file; "" for other bytes.
std::string_view compression_of(std::string_view head);

// Checks the first bytes of a file of records. kData: they are compressed, UTF-16, or from a
// spreadsheet or another program; the hint says what to do.
Status check_is_text(std::string_view head);

}  // namespace paddle::data
