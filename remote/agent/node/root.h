// Root, the only folder that an agent may touch without a user's request, and its layout.
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
// link, belongs to another user, or others may write to it.
Result<Root> open_root(const std::string& path);

// A job or process name: 1 to 100 characters of [A-Za-z0-9._-], not starting with '.' or '-'.
Status check_name(std::string_view name);

// jobs/<job>/proc/<name>
Result<SafePath> process_folder(std::string_view job, std::string_view name);

// Opens a folder below root.
Result<UniqueFd> open_folder(const Root& root, std::string_view path);

// A name in an open folder: the last part of `path`, in the folder above it, which make_parent()
// creates if absent.
struct FolderEntry {
  UniqueFd folder;
  std::string name;
};
Result<FolderEntry> open_parent(const Root& root, const SafePath& path);
Result<FolderEntry> make_parent(const Root& root, const SafePath& path);

// kLazily: a loss of power may lose the content, but the caller does not wait for the disk.
enum class Keep { kDurably, kLazily };
// Replaces atomically: temporary file in the same folder, fsync if durably, rename.
Status replace_below(const Root& root, const SafePath& path, ByteSpan content,
                     Keep keep = Keep::kDurably);
Result<std::string> read_below(const Root& root, const SafePath& path, std::size_t max_bytes);

// Returns `error`; if a full disk or quota caused it, adds the free space of root's file system.
Error with_room(const Root& root, Error error);

// Names in a folder, sorted; none when it does not exist.
Result<std::vector<std::string>> names_in(const Root& root, const std::string& folder);

// Names in an open folder, sorted; the caller keeps the descriptor.
Result<std::vector<std::string>> names_of(int folder);

}  // namespace paddle::agent
