// Checks whether a snapshot is whole, by the sizes and SHA-256 in its MANIFEST
// (engine/snapshot/manifest.h), which also covers itself. Works on files that are here or were
// listed; only `paddle verify` reads all of a snapshot.
#pragma once

#include <functional>
#include <string>

#include "engine/snapshot/manifest.h"
#include "remote/client/agent_client.h"

namespace paddle::cli {

// The text of a MANIFEST; "" if it cannot be read.
std::string manifest_on_node(remote::AgentClient& client, const std::string& folder);
std::string manifest_here(const std::string& folder);

// "_w0 is damaged", for the first file that is not right, or why the MANIFEST cannot be used; "" if
// the snapshot is whole.
std::string damage_of(const Result<snapshot::Manifest>& manifest,
                      const std::function<bool(const snapshot::FileEntry&)>& is_right);
// damage_of() for a snapshot in a folder here; reads all its files.
std::string damage_here(const std::string& folder);

// The snapshot on which a delta is based; "" for a full one.
std::string base_snapshot_of(const Result<snapshot::Manifest>& manifest);

}  // namespace paddle::cli
