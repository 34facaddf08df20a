// The model that is served: a snapshot, or of a folder into which training saves them the best one
// that it names, or the newest.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/serve/counters.h"
#include "engine/serve/model.h"

namespace paddle::serve {

class NewestModel {
 public:
  enum class Choice {
    kBest,    // the one in the file BEST, which training writes with train.best; else the newest
    kNewest,  // whatever BEST says
  };

  // A thread looks every `period` for another snapshot to serve, also for one that was put in the
  // place of the served one. One that cannot be used is told once and the model stays. kUsage,
  // kData, kResource: there is none that can.
  static Result<std::unique_ptr<NewestModel>> open(const std::string& directory, Choice choice,
                                                   const ModelOptions& options, Counters& counters,
                                                   std::chrono::milliseconds period);
  ~NewestModel();

  // A request keeps the one that it began with.
  std::shared_ptr<const Model> get() const {
    const std::scoped_lock lock(mutex_);
    return model_;
  }

 private:
  NewestModel(std::string folder, Choice choice, ModelOptions options, Counters& counters)
      : folder_(std::move(folder)),
        choice_(choice),
        options_(std::move(options)),
        counters_(counters) {}
  // The snapshots that may be served, the one that should be first.
  Result<std::vector<std::string>> candidates() const;
  // Loads the first candidate that can be used, unless what is there was looked at before.
  Status look();
  void follow(std::chrono::milliseconds period);

  const std::string folder_;  // or the only snapshot
  const Choice choice_;
  const ModelOptions options_;
  Counters& counters_;
  bool is_snapshot_ = false;
  std::string seen_;    // the candidates at the last look
  std::string served_;  // the mark of the snapshot that is served

  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_over_ = false;
  std::shared_ptr<const Model> model_;
  std::thread follower_;
};

}  // namespace paddle::serve
