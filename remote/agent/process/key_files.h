// The key files of a job's processes on this node, jobs/<job>/keys/<process>. Where memory keeps
// them as long as processes run, jobs/<job>/keys is a link to a folder there.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

// A folder in memory whose files outlive the user's login; "" where there is none.
std::string folder_in_memory();

// A new file of mode 0600 in a folder of mode 0700.
Status write_key_file(const Root& root, const std::string& job, const std::string& process,
                      ByteSpan keys, const std::string& memory = folder_in_memory());
// Overwrites and removes those of a job, if there are any.
void wipe_key_files(const Root& root, const std::string& job);

}  // namespace paddle::agent
