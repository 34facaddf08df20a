// Checks whether a snapshot is whole, by the sizes and SHA-256 in its MANIFEST (engine/snapshot),
// which also covers itself. Works on files that are here or were listed; only `paddle verify` reads
// all of a snapshot.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "remote/client/agent_client.h"

namespace paddle::cli {

// A file that a MANIFEST names, with the size and hash that it must have.
struct NamedFile {
  std::string name;
  std::uint64_t size = 0;
  std::string sha256;  // in hex
};
// Nothing if the text is no MANIFEST of the engine, or is damaged.
std::optional<std::vector<NamedFile>> files_of_manifest(const std::string& manifest);

// The first file that differs from the MANIFEST, or "MANIFEST" if that is damaged; "" if there is
// none.
std::string damaged_file(const std::string& manifest,
                         const std::function<bool(const NamedFile&)>& is_right);
// Whether a snapshot has format 1. Its files have no SHA-256, so only the engine can check them.
bool is_first_format(const std::string& manifest);
// The text of the MANIFEST; "" if it cannot be read.
std::string manifest_on_node(remote::AgentClient& client, const std::string& folder);
// damaged_file() for a snapshot in a folder here; reads all its files.
std::string damaged_file_here(const std::string& folder);

}  // namespace paddle::cli
