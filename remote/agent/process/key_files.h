// The key files of a job's processes on this node, jobs/<job>/keys/<process>. Where files in memory
// outlive the user's login, jobs/<job>/keys is a link to a folder in memory.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "remote/agent/node/root.h"

namespace paddle::agent {

// A folder in memory whose files outlive the user's login; "" where there is none.
std::string folder_in_memory();

// Creates the file with mode 0600 in a folder of mode 0700; on disk if memory has no room.
Status write_key_file(const Root& root, const std::string& job, const std::string& process,
                      ByteSpan keys, const std::string& memory = folder_in_memory());
// Overwrites and removes the key files of a job, if there are any.
void wipe_key_files(const Root& root, const std::string& job);
// Wipes the key files in memory that belong to jobs of this root whose folders were removed by
// hand.
void wipe_stray_key_files(const Root& root, const std::string& memory = folder_in_memory());

}  // namespace paddle::agent
