// Replacement of a snapshot by a new one of its name, so that a crash leaves one of the two whole.
#pragma once

#include <string>
#include <string_view>

#include "engine/snapshot/file_system.h"

namespace paddle::snapshot {

// In the name of a folder that is being written or removed.
constexpr std::string_view kUnfinished = ".tmp";

// Renames the complete and durable "<directory>.tmp" to `directory`, and removes an earlier
// snapshot of that name once this is durable too. After an error the earlier one or the new one is
// whole there, or will be once clear_leftovers() has brought it back.
Status publish(FileSystem& files, const std::string& directory);

// Removes what a killed process left beside `directory` while it wrote or published there. It
// first brings back an earlier snapshot that has lost its name and was not replaced yet.
Status clear_leftovers(FileSystem& files, const std::string& directory);

// The same for every snapshot in `folder`.
Status clear_replaced(FileSystem& files, const std::string& folder);

}  // namespace paddle::snapshot
