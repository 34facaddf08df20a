// Listing, sending and removing of files below root.
#pragma once

#include <functional>
#include <string>

#include "base/sha256.h"
#include "proto/agent.pb.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// Regular files below folder with their hashes; paths relative to it. None when it does not exist.
Status list_files(const Root& root, const wire::agent::PathRequest& folder,
                  const std::function<Status(const wire::agent::FileEntry&)>& visit);

// Sends the file at its current length, in chunks; an empty file is one empty chunk.
Status send_file(const Root& root, const std::string& path,
                 const std::function<Status(std::uint64_t size, ByteSpan chunk, bool more)>& send);

// Removes a file or a whole folder; succeeds when there is none.
Status remove_path(const Root& root, const std::string& path);

}  // namespace paddle::agent
