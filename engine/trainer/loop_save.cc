// Snapshots of passes, and what becomes of training when one fails.
#include <utility>

#include "base/log.h"
#include "engine/trainer/loop.h"

namespace paddle::trainer {

Status Loop::save_pass(std::uint32_t pass) {
  const Status saved = save(pass);
  const std::string path = pass_directory(options_.save_dir, pass);
  if (saved) {
    metrics_.write("save", pass, batch_, model_.read(since_start_), JsonObject().add("path", path));
    return {};
  }
  const bool is_last = pass + 1 == options_.train.passes;
  if (is_last || saved.error().code != Errc::kData) return saved;
  base_.clear();  // no delta goes on from it
  log_warning("no whole snapshot of pass {}: {}; earlier ones stay, and training goes on", pass,
              saved.error().message);
  return {};
}

}  // namespace paddle::trainer
