// Snapshots of passes, and what becomes of training when one fails.
#include <fmt/format.h>

#include "base/log.h"
#include "engine/snapshot/retention.h"
#include "engine/trainer/loop.h"

namespace paddle::trainer {
namespace {

constexpr std::size_t kFailureBytesMax = 500;  // a report must fit a pipe's atomic write

}  // namespace

Status Loop::save_pass(std::uint32_t pass) {
  const std::string path = pass_directory(options_.save_dir, pass);
  const Status saved = save(pass);
  if (saved) {
    save_failure_.clear();
    metrics_.write("save", pass, batch_, model_.read(since_start_), JsonObject().add("path", path));
    return {};
  }
  const bool is_last = pass + 1 == options_.train.passes;
  if (is_last || !can_train_on(saved.error())) return saved;
  base_.clear();  // the shards have forgotten what changed since then
  save_failure_ = fmt::format("saving {}: {}", snapshot::pass_name(pass), saved.error().message)
                      .substr(0, kFailureBytesMax);
  log_warning("{}; earlier snapshots stay, and training goes on", save_failure_);
  return {};
}

// The disk may have room again at the next pass. A job that has saved nothing yet has little to
// lose, and may never be able to save.
bool Loop::can_train_on(const Error& failure) const {
  if (failure.code == Errc::kData) return true;  // it is written, but not whole
  if (failure.code != Errc::kResource) return false;
  const auto names = snapshot::snapshot_names(options_.save_dir);
  return names && !names->empty();
}

}  // namespace paddle::trainer
