// Copies of trainer 0's snapshots on another node.
#include "base/log.h"
#include "engine/trainer/loop.h"

namespace paddle::trainer {
namespace {

// The folder or disk of this node failed; all else is for the whole job.
bool is_of_node(const Error& error) {
  return error.code == Errc::kResource || error.code == Errc::kUsage || error.code == Errc::kData;
}

}  // namespace

bool Loop::saves_copies() const {
  return options_.saves_copy && options_.trainer_id != 0 && !options_.save_dir.empty();
}

Status Loop::copy_pass(std::uint32_t pass) {
  PADDLE_TRY_STATUS(begin_long_work(pass, wire::ACTIVITY_SAVING));
  return copy_to(pass, pass_directory(options_.save_dir, pass));
}

// It has the name that trainer 0 gives it, whose batches may be more or fewer.
Status Loop::copy_stop(std::uint32_t pass) {
  PADDLE_TRY_STATUS(begin_long_work(pass, wire::ACTIVITY_SAVING));
  PADDLE_TRY(const std::uint64_t batches, client_.snapshots().leader_batches());
  return copy_to(pass, stop_directory(options_.save_dir, pass, batches));
}

Status Loop::copy_to(std::uint32_t pass, const std::string& directory) {
  log_info("Saving a copy of the parameters to {}", directory);
  Status saved = client_.snapshots().save_copy(directory);
  const bool is_pass = directory == pass_directory(options_.save_dir, pass);
  if (saved && is_pass && options_.train.snapshots_kept > 0) {
    saved = keep_newest(pass);
  }
  if (saved && is_pass) full_pass_ = pass;
  if (saved || !is_of_node(saved.error())) return saved;
  log_warning("{}; this node has no copy of that snapshot, the job goes on", saved.error().message);
  return {};
}

}  // namespace paddle::trainer
