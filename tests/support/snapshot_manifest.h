// The MANIFEST of a snapshot, as the engine writes it.
#pragma once

#include <map>
#include <string>

#include "base/sha256.h"
#include "engine/snapshot/manifest.h"

namespace paddle::test {

// `files`: content by name, of files that describe the model: "model/<name>".
inline std::string snapshot_manifest(std::uint64_t pass, std::uint64_t step,
                                     const std::string& base = "",
                                     const std::map<std::string, std::string>& files = {}) {
  snapshot::Manifest manifest;
  manifest.info.optimizer.set_method("sgd");
  manifest.info.pass = pass;
  manifest.info.step = step;
  if (!base.empty()) manifest.info.base = {base, {}};
  for (const auto& [name, content] : files)
    manifest.model.push_back({name, content.size(), sha256_of(as_bytes(content)), 0});
  manifest.id = snapshot::snapshot_id(manifest.info);
  return snapshot::encode_manifest(manifest);
}

// The MANIFEST of another format.
inline std::string manifest_of_another_format() {
  return "snapshot format=1 engine=0.1.0\nprogress pass=1 step=9 seed=1\ncrc32c 0149fd9f\n";
}

}  // namespace paddle::test
