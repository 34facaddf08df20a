// Replacement of a snapshot by a new one of the same name, such that a crash leaves one of the two
// whole.
#pragma once

#include <string>
#include <string_view>

#include "engine/snapshot/file_system.h"

namespace paddle::snapshot {

// Suffix of a folder that is being written or removed.
constexpr std::string_view kUnfinished = ".tmp";

// Renames the complete and durable "<directory>.tmp" to `directory`, and removes an earlier
// snapshot of that name once the new name is durable. After an error the earlier or the new
// snapshot is whole there, perhaps only after clear_leftovers().
Status publish(FileSystem& files, const std::string& directory);

// Removes what a killed process left beside `directory` while it wrote or published there. Before
// that, gives its name back to an earlier snapshot that was renamed and not replaced yet.
Status clear_leftovers(FileSystem& files, const std::string& directory);

// Calls clear_leftovers() for every snapshot in `folder`.
Status clear_replaced(FileSystem& files, const std::string& folder);

}  // namespace paddle::snapshot
