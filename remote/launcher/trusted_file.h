// A file that only this user and root can have written. Its owner and mode, and those of every link
// and folder on the way to it, are read from descriptors, so that nothing can be exchanged between
// the look and the use.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace paddle::remote {

// This user, root and, under sudo, who called it.
bool is_trusted_owner(uid_t owner);
// A descriptor of the file or folder, for reading. kAuth names what others could have written, and
// how to mend it; a file that is not there is the error of system_error(). Folders that everybody
// may write to are good when they are sticky, as /tmp is; a group may write if it is the user's own
// (its number is the user's), as it is where umask is 002, and no access list says more. Under
// sudo, who called it counts as root.
Result<UniqueFd> open_trusted(const std::string& path);
// The same, but a file that is not there is good, unless others could put one there.
Status check_trusted(const std::string& path);
Result<std::string> read_trusted_file(const std::string& path, std::size_t max_bytes = 64U << 20U);

}  // namespace paddle::remote
