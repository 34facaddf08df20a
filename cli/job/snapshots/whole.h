// Whether a snapshot is whole, by the sizes and SHA-256 in its MANIFEST (engine/snapshot), which
// also covers itself. For what lies here or was listed; only `paddle verify` reads all of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "remote/agent_client.h"

namespace paddle::cli {

// A file that a MANIFEST names, and what it has to be.
struct NamedFile {
  std::string name;
  std::uint64_t size = 0;
  std::string sha256;  // in hex
};
// Nothing for what is no MANIFEST of the engine, or a damaged one.
std::optional<std::vector<NamedFile>> files_of_manifest(const std::string& manifest);

// The first file that is not what the MANIFEST says, "MANIFEST" itself among them; "" if none.
std::string damaged_file(const std::string& manifest,
                         const std::function<bool(const NamedFile&)>& is_right);
// "" for one that cannot be read.
std::string manifest_on_node(remote::AgentClient& client, const std::string& folder);
// Of a snapshot in a folder here, which is read whole.
std::string damaged_file_here(const std::string& folder);

}  // namespace paddle::cli
