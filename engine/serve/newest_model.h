// The model that is served: a snapshot, or the newest in a folder into which training saves more.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "engine/serve/counters.h"
#include "engine/serve/model.h"

namespace paddle::serve {

class NewestModel {
 public:
  // Of a folder, a thread looks for a newer finished snapshot every `period`. One that cannot be
  // used is told once and the model stays. kUsage, kData, kResource: there is none that can.
  static Result<std::unique_ptr<NewestModel>> open(const std::string& directory,
                                                   const ModelOptions& options, Counters& counters,
                                                   std::chrono::milliseconds period);
  ~NewestModel();

  // A request keeps the one that it began with.
  std::shared_ptr<const Model> get() const {
    const std::scoped_lock lock(mutex_);
    return model_;
  }

 private:
  NewestModel(std::string folder, ModelOptions options, Counters& counters)
      : folder_(std::move(folder)), options_(std::move(options)), counters_(counters) {}
  // Loads the newest snapshot unless it is the last one that was looked at.
  Status look();
  void follow(std::chrono::milliseconds period);

  const std::string folder_;
  const ModelOptions options_;
  Counters& counters_;
  std::string seen_;  // the snapshot that was looked at last, and when its MANIFEST was written

  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_over_ = false;
  std::shared_ptr<const Model> model_;
  std::thread follower_;
};

}  // namespace paddle::serve
