#include "engine/serve/newest_model.h"

#include <sys/stat.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/log.h"
#include "engine/snapshot/retention.h"

namespace paddle::serve {
namespace {

constexpr std::size_t kBestBytesMax = 256;

// Another text when a file of the snapshot is written again, or is still to come: a copy that is
// under way is looked at again.
std::string mark_of(const std::string& snapshot) {
  std::string mark = snapshot;
  const auto names = snapshot::kernel_file_system().list(snapshot);
  if (!names) return mark;
  for (const std::string& name : *names) {
    struct stat info {};
    if (::stat((snapshot + "/" + name).c_str(), &info) != 0) continue;
    mark += fmt::format("\n{} {} {} {}.{}", name, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                        info.st_mtim.tv_nsec);
  }
  return mark;
}

std::string best_of(const std::string& folder) {
  auto text = read_file(folder + "/BEST", kBestBytesMax);
  if (!text) return "";
  while (text->ends_with('\n')) text->pop_back();
  return *std::move(text);
}

}  // namespace

Result<std::unique_ptr<NewestModel>> NewestModel::open(const std::string& directory, Choice choice,
                                                       const ModelOptions& options,
                                                       Counters& counters,
                                                       std::chrono::milliseconds period) {
  std::unique_ptr<NewestModel> newest(new NewestModel(directory, choice, options, counters));
  newest->is_snapshot_ = snapshot::kernel_file_system().exists(directory + "/MANIFEST");
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

Result<std::vector<std::string>> NewestModel::candidates() const {
  if (is_snapshot_) return std::vector{folder_};
  PADDLE_TRY(auto names, snapshot::snapshot_names(folder_));
  // A copy that is under way, or what is left of a snapshot.
  std::erase_if(names, [this](const std::string& name) {
    return !snapshot::kernel_file_system().exists(folder_ + "/" + name + "/MANIFEST");
  });
  std::vector<std::string> found;
  const std::string best = choice_ == Choice::kBest ? best_of(folder_) : "";
  if (std::ranges::find(names, best) != names.end()) found.push_back(folder_ + "/" + best);
  if (!names.empty() && names.back() != best) found.push_back(folder_ + "/" + names.back());
  return found;
}

Status NewestModel::look() {
  PADDLE_TRY(const auto found, candidates());
  std::vector<std::string> marks;
  std::string seen;
  for (const std::string& snapshot : found) seen += marks.emplace_back(mark_of(snapshot)) + "\n\n";
  if (found.empty() || seen == std::exchange(seen_, seen)) return {};
  Status first;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (marks[i] == served_) return first;
    auto model = Model::load(found[i], options_);
    if (!model) {
      if (first) first = std::move(model).error();
      continue;
    }
    served_ = marks[i];
    if (!first) log_warning("{}", first.error().message);
    const std::scoped_lock lock(mutex_);
    model_.swap(*model);  // the one before goes after the lock, or with its last request
    return {};
  }
  return first;
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
