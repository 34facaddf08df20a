#include "cli/workspace/engine_binary.h"

#include "base/sha256.h"
#include "base/text.h"

namespace paddle::cli {

Result<remote::PushItem> engine_item(const std::string& local_path) {
  auto digest = sha256_of_file(local_path);
  if (!digest) {
    Error error = std::move(digest).error().with("the engine that goes to the nodes");
    error.code = Errc::kUsage;
    error.hint = "build it (scripts/build), or keep `paddle` in the same folder as paddlectl";
    return error;
  }
  return remote::PushItem{local_path, "bin/paddle-" + to_hex(*digest).substr(0, 16), true};
}

}  // namespace paddle::cli
