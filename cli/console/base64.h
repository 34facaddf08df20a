// Bytes as text: hashes in a page's policy, and the key in a manifest.
#pragma once

#include <string>

#include "base/bytes.h"

namespace paddle::cli {

// Base64 of RFC 4648, with padding and without line breaks.
std::string base64(ByteSpan data);

}  // namespace paddle::cli
