// The snapshot from which a job continues: the newest whole one in its folder.
#pragma once

#include <optional>
#include <string>

#include "engine/snapshot/reader.h"

namespace paddle::snapshot {

// Completes in `folder` what a crash interrupted: the replacement of a snapshot, or the move of all
// to "earlier-1". Must be called before anything else is done there. kResource.
Status finish_interrupted(const std::string& folder, FileSystem& files = kernel_file_system());

// Opens the snapshot in `folder` with the most passes and steps of those that are whole;
// std::nullopt if the folder has no snapshot. Warnings name the damaged snapshots with more
// progress, and these are renamed to "<name>.damaged", so that training can save snapshots of the
// same names. Sets `explanation` to "pass-00001, since pass-00002 is damaged: ...", or to "".
// kData: there are snapshots, but none is whole; then nothing is renamed. kResource.
Result<std::optional<SnapshotReader>> take_newest_whole(const std::string& folder,
                                                        FileSystem& files = kernel_file_system(),
                                                        std::string* explanation = nullptr);

// Moves all snapshots in `folder`, with the files BEST and TESTS, to "<folder>/earlier-1", or the
// next free number, and returns its path; "" if there are none. After a crash, finish_interrupted()
// completes the move. kResource.
Result<std::string> set_snapshots_aside(const std::string& folder,
                                        FileSystem& files = kernel_file_system());

}  // namespace paddle::snapshot
