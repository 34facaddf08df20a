#include "engine/trainer/pass_snapshots.h"

#include <fmt/format.h>

#include "base/log.h"
#include "engine/snapshot/file_system.h"
#include "engine/snapshot/retention.h"
#include "engine/trainer/early_stop.h"

namespace paddle::trainer {
namespace {

// Whether the folder or the disk of this node failed. All other errors concern the whole job.
bool is_of_node(const Error& error) {
  return error.code == Errc::kResource || error.code == Errc::kUsage || error.code == Errc::kData;
}

}  // namespace

std::string pass_directory(const std::string& save_dir, std::uint32_t pass) {
  return save_dir + "/" + snapshot::pass_name(pass);
}

std::string stop_directory(const std::string& save_dir, std::uint32_t pass, std::uint64_t batch) {
  return fmt::format("{}-{:06d}", pass_directory(save_dir, pass), batch);
}

Result<bool> SnapshotSeries::save(client::SnapshotClient& snapshots, const std::string& directory,
                                  bool in_full, bool is_brief) {
  if (in_full || base_.empty() || deltas_ + 1 >= full_period_) {
    if (!is_brief) log_info("Saving parameters to {}", directory);
    PADDLE_TRY_STATUS(snapshots.save(directory));
    base_ = directory;
    deltas_ = 0;
    return true;
  }
  log_info("Saving what changed since {} to {}", base_, directory);
  PADDLE_TRY_STATUS(snapshots.save_delta(directory, base_));
  ++deltas_;
  return false;
}

bool PassSnapshots::is_due(const PassProgress& at) const {
  const std::uint32_t period = options_.train.saving_period;
  return period > 0 && ((at.pass + 1) % period == 0 || at.pass + 1 == at.passes);
}

bool PassSnapshots::saves_copies() const {
  return options_.saves_copy && options_.trainer_id != 0 && !options_.save_dir.empty();
}

bool PassSnapshots::saves_here() const {
  return saves_copies() || (options_.trainer_id == 0 && !options_.save_dir.empty());
}

bool PassSnapshots::has(std::uint32_t pass) const {
  return snapshot::kernel_file_system().exists(pass_directory(options_.save_dir, pass));
}

Status PassSnapshots::save(const PassProgress& at) {
  if (!saves_here()) return {};
  if (options_.trainer_id == 0) return save_own(at);
  PADDLE_TRY_STATUS(report_.begin_long_work(at, wire::ACTIVITY_SAVING));
  return save_copy(at, pass_directory(options_.save_dir, at.pass));
}

Status PassSnapshots::save_own(const PassProgress& at) {
  Status saved = write_own(at);
  if (saved) {
    report_.set_save_failure("");
    report_.write_save(at, pass_directory(options_.save_dir, at.pass));
    return {};
  }
  const bool is_last = at.pass + 1 == at.passes;
  if (is_last || !can_train_on(saved.error())) return saved;
  series_.forget_base();
  const std::string failure =
      fmt::format("saving {}: {}", snapshot::pass_name(at.pass), saved.error().message)
          .substr(0, kFailureBytesMax);
  report_.set_save_failure(failure);
  log_warning("{}; earlier snapshots stay, and training continues", failure);
  return {};
}

// Saves a full snapshot or a delta; the last snapshot is always full.
Status PassSnapshots::write_own(const PassProgress& at) {
  PADDLE_TRY_STATUS(report_.begin_long_work(at, wire::ACTIVITY_SAVING));
  const std::string directory = pass_directory(options_.save_dir, at.pass);
  PADDLE_TRY(const bool is_full, series_.save(client_.snapshots(), directory,
                                              at.pass + 1 == at.passes, options_.is_brief));
  if (options_.train.snapshots_kept > 0) PADDLE_TRY_STATUS(keep_newest(at.pass));
  if (is_full) full_pass_ = at.pass;
  return {};
}

// The disk may have room again at the next pass. A job that has saved nothing yet has little to
// lose, and may never be able to save.
bool PassSnapshots::can_train_on(const Error& failure) const {
  if (failure.code == Errc::kData) return true;  // written, but incomplete
  if (failure.code != Errc::kResource) return false;
  const auto names = snapshot::snapshot_names(options_.save_dir);
  return names && !names->empty();
}

// If this node cannot write the copy, the job goes on.
Status PassSnapshots::save_copy(const PassProgress& at, const std::string& directory) {
  log_info("Saving a copy of the parameters to {}", directory);
  Status saved = client_.snapshots().save_copy(directory);
  const bool is_pass = directory == pass_directory(options_.save_dir, at.pass);
  if (saved && is_pass && options_.train.snapshots_kept > 0) saved = keep_newest(at.pass);
  if (saved && is_pass) full_pass_ = at.pass;
  if (saved || !is_of_node(saved.error())) return saved;
  log_warning("{}; the copy on this node is missing; the job continues", saved.error().message);
  return {};
}

Status PassSnapshots::save_stop(const PassProgress& at, const snapshot::PassPlace& place) {
  client_.snapshots().describe_place(place);
  if (!saves_here()) return {};
  PADDLE_TRY_STATUS(report_.begin_long_work(at, wire::ACTIVITY_SAVING));
  if (options_.trainer_id != 0) {
    // The name has trainer 0's number of batches, which may differ from this trainer's.
    PADDLE_TRY(const std::uint64_t batches, client_.snapshots().leader_batches());
    return save_copy(at, stop_directory(options_.save_dir, at.pass, batches));
  }
  const std::string directory = stop_directory(options_.save_dir, at.pass, at.batch);
  log_info("Saving parameters to {}", directory);
  PADDLE_TRY_STATUS(client_.snapshots().save(directory));
  report_.write_save(at, directory);
  return {};
}

// Retention.

Status PassSnapshots::keep_newest(std::uint32_t pass) {
  best_kept_ = best_;
  return snapshot::keep_newest(options_.save_dir, pass, options_.train.snapshots_kept, best_);
}

void PassSnapshots::set_best(std::optional<std::uint32_t> pass) {
  best_ = pass ? snapshot::pass_name(*pass) : "";
  const Status written = write_best(options_.save_dir, best_);
  if (!written) log_warning("{}; the file may name another pass", written.error().message);
}

void PassSnapshots::remove_former_best(const PassProgress& at) {
  if (options_.train.snapshots_kept == 0 || best_ == best_kept_) return;
  if (const Status kept = keep_newest(at.pass); !kept)
    log_warning("{}; one snapshot more than train.snapshots_kept is kept", kept.error().message);
}

}  // namespace paddle::trainer
