#include "engine/serve/newest_model.h"

#include <sys/stat.h>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/snapshot/retention.h"

namespace paddle::serve {
namespace {

// Another one when the snapshot is written again under its name.
std::string mark_of(const std::string& snapshot) {
  struct stat info {};
  if (::stat((snapshot + "/MANIFEST").c_str(), &info) != 0) return snapshot;
  return fmt::format("{} {} {}.{}", snapshot, info.st_ino, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

}  // namespace

Result<std::unique_ptr<NewestModel>> NewestModel::open(const std::string& directory,
                                                       const ModelOptions& options,
                                                       Counters& counters,
                                                       std::chrono::milliseconds period) {
  std::unique_ptr<NewestModel> newest(new NewestModel(directory, options, counters));
  if (snapshot::kernel_file_system().exists(directory + "/MANIFEST")) {
    PADDLE_TRY(newest->model_, Model::load(directory, options));
    return newest;
  }
  const bool exists = snapshot::kernel_file_system().exists(directory);
  if (exists) PADDLE_TRY_STATUS(newest->look());
  if (!newest->model_) {
    return Error{
        Errc::kUsage,
        directory + (exists ? " is no snapshot, and has none" : ": there is no such folder"),
        "--snapshot names a pass-0000N folder, or the --save_dir that they are in"};
  }
  newest->follower_ = std::thread([&served = *newest, period] { served.follow(period); });
  return newest;
}

NewestModel::~NewestModel() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  stopped_.notify_all();
  if (follower_.joinable()) follower_.join();
}

Status NewestModel::look() {
  PADDLE_TRY(const auto names, snapshot::snapshot_names(folder_));
  if (names.empty()) return {};
  const std::string snapshot = folder_ + "/" + names.back();
  const std::string mark = mark_of(snapshot);
  if (mark == std::exchange(seen_, mark)) return {};
  PADDLE_TRY(auto model, Model::load(snapshot, options_));
  const std::scoped_lock lock(mutex_);
  model_.swap(model);  // the one before goes after the lock, or with its last request
  return {};
}

void NewestModel::follow(std::chrono::milliseconds period) {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, period, [this] { return is_over_; })) {
    const auto before = model_;
    lock.unlock();
    const Status looked = look();
    if (!looked) {
      ++counters_.reloads_failed;
      log_warning("{}; still serving {}", looked.error().message, before->name());
    } else if (const auto now = get(); now != before) {
      ++counters_.reloads;
      log_info("serving {} from now on", now->name());
    }
    lock.lock();
  }
}

}  // namespace paddle::serve
