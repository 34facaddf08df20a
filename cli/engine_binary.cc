#include "cli/engine_binary.h"

#include "cli/file_hash.h"

namespace paddle::cli {

Result<remote::PushItem> engine_item(const std::string& local_path) {
  auto hash = file_sha256(local_path);
  if (!hash) {
    Error error = std::move(hash).error().with("the engine that goes to the nodes");
    error.code = Errc::kUsage;
    error.hint = "build it (scripts/build), or keep `paddle` in the same folder as paddlectl";
    return error;
  }
  return remote::PushItem{local_path, "bin/paddle-" + hash->substr(0, 16), true};
}

}  // namespace paddle::cli
