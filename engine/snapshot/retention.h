// Retention of a job's snapshots on disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/snapshot/file_system.h"

namespace paddle::snapshot {

// For example "pass-00007".
std::string pass_name(std::uint64_t pass);

// In the name of a damaged snapshot that training did not use.
constexpr std::string_view kDamaged = ".damaged";

// Names of the folders in `folder` that are, or were, snapshots: they begin with "pass-" and a
// digit, and are not empty, unfinished or set aside as damaged. Sorted. kResource.
Result<std::vector<std::string>> snapshot_names(const std::string& folder,
                                                FileSystem& files = kernel_file_system());

// Reads the snapshot of `pass` in `folder` back, without its base, which was read when it was new.
// Then removes the snapshots up to that pass: those of stops, and those of ends of passes except
// the newest `count`, `best` ("": none), and their bases. Later snapshots and other directories
// stay. kData: the new snapshot is not whole, and nothing is removed. kResource.
Status keep_newest(const std::string& folder, std::uint64_t pass, std::uint32_t count,
                   const std::string& best = "", FileSystem& files = kernel_file_system());

}  // namespace paddle::snapshot
