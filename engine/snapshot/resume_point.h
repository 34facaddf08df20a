// The snapshot from which a job goes on: the newest in its folder that is whole.
#pragma once

#include <optional>
#include <string>

#include "engine/snapshot/reader.h"

namespace paddle::snapshot {

// Ends in `folder` what a crash has interrupted: the replacement of a snapshot, or their move to
// "earlier-1". It comes before anything else is done there. kResource.
Status finish_interrupted(const std::string& folder, FileSystem& files = kernel_file_system());

// Opens the snapshot in `folder` with the most passes and steps whose every byte is right; nothing
// when the folder has no snapshot. Damaged ones that claim more progress are named in warnings and
// renamed to "<name>.damaged", so that training can save under their names again; `told` is set to
// "pass-00001, since pass-00002 is damaged: ...", or "". kData: there are snapshots, but none is
// whole; then nothing is renamed. kResource.
Result<std::optional<SnapshotReader>> take_newest_whole(const std::string& folder,
                                                        FileSystem& files = kernel_file_system(),
                                                        std::string* told = nullptr);

// Moves all snapshots in `folder`, with the files BEST and TESTS, to "<folder>/earlier-1", or the
// next number that is free, and returns its path; "" when there are none. After a crash all are
// there or, once it is finished, none. kResource.
Result<std::string> set_snapshots_aside(const std::string& folder,
                                        FileSystem& files = kernel_file_system());

}  // namespace paddle::snapshot
