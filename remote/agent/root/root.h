// The one folder that an agent may touch, and its layout.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/safe_path.h"

namespace paddle::agent {

struct Root {
  std::string path;  // absolute, no trailing '/'
  UniqueFd fd;
};

// kResource when it is absent: a teardown may have just removed it. kAuth when it is a symbolic
// link, belongs to someone else or others may write to it.
Result<Root> open_root(const std::string& path);

// A job or process name: 1 to 100 of [A-Za-z0-9._-], not starting with '.' or '-'.
Status check_name(std::string_view name);

// jobs/<job>/proc/<name>
Result<SafePath> process_folder(std::string_view job, std::string_view name);

// Opens a folder below root.
Result<UniqueFd> open_folder(const Root& root, std::string_view path);

// A name in an open folder: the one of `path`, which make_parent() makes when absent.
struct FolderEntry {
  UniqueFd folder;
  std::string name;
};
Result<FolderEntry> open_parent(const Root& root, const SafePath& path);
Result<FolderEntry> make_parent(const Root& root, const SafePath& path);

// kLazily: a loss of power may take the content, and no disk holds up the caller.
enum class Keep { kDurably, kLazily };
// Replaces atomically: temporary file in the same folder, fsync if durably, rename.
Status replace_below(const Root& root, const SafePath& path, ByteSpan content,
                     Keep keep = Keep::kDurably);
Result<std::string> read_below(const Root& root, const SafePath& path, std::size_t max_bytes);

// `error`, with what is free where root lies if it came from a disk or a quota that is full.
Error with_room(const Root& root, Error error);

// Names in a folder, sorted; none when it does not exist.
Result<std::vector<std::string>> names_in(const Root& root, const std::string& folder);

// Names in an open folder, sorted; the caller keeps the descriptor.
Result<std::vector<std::string>> names_of(int folder);

}  // namespace paddle::agent
