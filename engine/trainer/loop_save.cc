// Snapshots of passes, and what becomes of training when one fails.
#include <fmt/format.h>

#include "base/log.h"
#include "engine/snapshot/retention.h"
#include "engine/trainer/loop.h"

namespace paddle::trainer {
bool Loop::is_saved(std::uint32_t pass) const {
  const std::uint32_t period = options_.train.saving_period;
  return period > 0 && ((pass + 1) % period == 0 || pass + 1 == options_.train.passes);
}

Status Loop::save_or_copy(std::uint32_t pass) {
  if (!keeps_snapshots() || was_saved(pass)) return {};
  return options_.trainer_id == 0 ? save_pass(pass) : copy_pass(pass);
}

Status Loop::save_with_others(std::uint32_t pass) {
  PADDLE_TRY_STATUS(save_or_copy(pass));
  // No strategy lets a trainer push for the next pass while this one is saved: a job that goes on
  // from the snapshot would push that again.
  return meet_others();
}

Status Loop::save_pass(std::uint32_t pass) {
  const std::string path = pass_directory(options_.save_dir, pass);
  Status saved = save(pass);
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

// Saves a full snapshot or a delta; the last snapshot is always full.
Status Loop::save(std::uint32_t pass) {
  PADDLE_TRY_STATUS(begin_long_work(pass, wire::ACTIVITY_SAVING));
  const std::string directory = pass_directory(options_.save_dir, pass);
  const bool is_full = base_.empty() || pass + 1 == options_.train.passes ||
                       deltas_ + 1 >= options_.train.full_snapshot_period;
  if (is_full) {
    if (!options_.is_brief) log_info("Saving parameters to {}", directory);
    PADDLE_TRY_STATUS(client_.snapshots().save(directory));
    base_ = directory;
    deltas_ = 0;
  } else {
    log_info("Saving what changed since {} to {}", base_, directory);
    PADDLE_TRY_STATUS(client_.snapshots().save_delta(directory, base_));
    ++deltas_;
  }
  if (options_.train.snapshots_kept > 0) PADDLE_TRY_STATUS(keep_newest(pass));
  if (is_full) full_pass_ = pass;
  return {};
}

Status Loop::keep_newest(std::uint32_t pass) {
  best_kept_ = best_;
  return snapshot::keep_newest(options_.save_dir, pass, options_.train.snapshots_kept, best_);
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
