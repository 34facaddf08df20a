// Listing, sending, copying and removing of files below root, without ever following a symbolic
// link or leaving the file system.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "proto/agent.pb.h"
#include "remote/agent/node/root.h"

namespace paddle::agent {

// Visits the regular files below the folder, with the hashes that the request wants; paths are
// relative to it. Visits none when the folder does not exist. Files whose names or folders have
// control characters are skipped; a request with all_kinds names them, links and empty folders.
Status list_files(const Root& root, const wire::agent::PathRequest& folder,
                  const std::function<Status(const wire::agent::FileEntry&)>& visit);

// Sends the first wanted.size() bytes of the file, in chunks; for zero bytes sends one empty chunk.
Status send_file(const Root& root, const wire::agent::PathRequest& wanted,
                 const std::function<Status(ByteSpan chunk, bool more)>& send);

// Removes a file or a whole folder; succeeds when the path does not exist.
Status remove_path(const Root& root, const std::string& path);

// Gives a file or a folder another name, durably. kResource when `to` exists.
Status move_path(const Root& root, const std::string& from, const std::string& to);

// Copies a range of a file; holes stay holes.
Status copy_range(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                  std::uint64_t bytes);
// Makes `to` share all of `from`'s blocks, copy-on-write: instant, and without disk space. False
// where the file system cannot (XFS and Btrfs can).
bool share_content(int from, int to);
// Copies content and permission bits to a new file `name`.
Status copy_file(int from, int folder, const std::string& name);

struct RemoveReport {
  std::size_t files = 0;
  std::vector<std::string> remaining;  // "path: why"
};

// Removes folder/name and everything below it. Where keep(path) is true, the path and the folders
// above it stay. `path` is the path of `name` below root, for keep() and reports.
void remove_tree(int folder, const std::string& name, const std::string& path,
                 const std::function<bool(const std::string&)>& keep, RemoveReport& report);

}  // namespace paddle::agent
