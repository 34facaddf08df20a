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

// A new file of mode 0600 in a folder of mode 0700. On disk where memory has no room.
Status write_key_file(const Root& root, const std::string& job, const std::string& process,
                      ByteSpan keys, const std::string& memory = folder_in_memory());
// The folder in memory of a job that has key files there; empty: none. Records of processes go
// there too while the disk takes none, under names that begin with kMemoryRecord.
UniqueFd memory_folder_of(const Root& root, const std::string& job);
constexpr std::string_view kMemoryRecord = ".record-";

enum class Wipe { kKeys, kAll };
// Overwrites and removes those of a job, if there are any; kAll: with the records in memory.
void wipe_key_files(const Root& root, const std::string& job, Wipe wipe = Wipe::kAll);
// Those of jobs whose folders somebody removed by hand: of all, or none of them, is root.
void wipe_stray_key_files(const Root& root, const std::string& memory = folder_in_memory());

}  // namespace paddle::agent
