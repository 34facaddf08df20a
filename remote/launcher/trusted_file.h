// Files that only this user and root can have written. The owner and mode of the file, and of every
// link and folder on its path, are read from descriptors, so that no part can be replaced between
// the check and the use.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace paddle::remote {

// True for this user, root and, under sudo, the user that called it.
bool is_trusted_owner(uid_t owner);
// Opens the file or folder for reading. kAuth names the part of the path that others could have
// written, and how to correct that; for an absent file the error is that of system_error(). Folders
// that everybody may write to are accepted when they are sticky, like /tmp. A group may have write
// access if it is the user's own (its number is the user's), as with a umask of 002, and if no
// access list extends it. Under sudo, the user that called it is treated like root.
Result<UniqueFd> open_trusted(const std::string& path);
// As open_trusted(), but accepts an absent file, unless others could create it.
Status check_trusted(const std::string& path);
Result<std::string> read_trusted_file(const std::string& path, std::size_t max_bytes = 64U << 20U);

}  // namespace paddle::remote
