// The secret in the dashboard's address. It stays in a file, so that the address outlives
// paddlectl.
#pragma once

#include <string>

#include "base/result.h"

namespace paddle::cli {

// 32 random bytes in the characters of a URL.
Result<std::string> new_token();

// The token in the file, which gets a new one if it does not exist. kAuth: another user may read or
// write the file, or it is no regular file. kUsage: its content is no token: 32 to 256 letters,
// digits, '-' and '_'. kResource: it cannot be written.
Result<std::string> token_of(const std::string& file);

}  // namespace paddle::cli
