// The answers of the server: the served model, the counters, the paths of requests, and the threads
// that score records. Requests that wait at the same time are scored in one run of the network.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "engine/http/service.h"
#include "engine/model/served_model.h"

namespace paddle::serve {

using http::Reply;
using http::Request;

// Counters of a server's work, in the text format of Prometheus.
class Counters {
 public:
  // Counts a reply. The path becomes a label; `took` is the time since the request was read.
  void count(const std::string& path, unsigned status, Duration took);
  void count(const Work& work);
  // Counts `requests` that were scored together.
  void count_joined(std::uint64_t requests);
  std::string text(const Model& model) const;

  // Gauges and counters that their owners change.
  http::ConnectionCounts connections;
  std::atomic<std::uint64_t> queued = 0;
  std::atomic<std::uint64_t> reloads = 0, reloads_failed = 0;

 private:
  static constexpr std::array<double, 12> kBounds{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                  0.05,   0.1,   0.25,   0.5,   1,    2.5};
  struct Times {
    std::array<std::uint64_t, kBounds.size()> buckets{};  // up to the bound
    std::uint64_t count = 0;
    double seconds = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, unsigned>, std::uint64_t> replies_;
  std::map<std::string, Times> times_;
  std::uint64_t records_ = 0, batches_ = 0, batched_requests_ = 0;
  inference::RowCounts rows_;
};

// The served model: one snapshot, or the best or the newest one in a folder into which training
// saves.
class NewestModel {
 public:
  enum class Choice {
    // The one that the file BEST names, which training writes with train.best; else the newest.
    kBest,
    kNewest,  // the newest, whatever BEST names
  };

  // A thread checks every `period` whether there is another snapshot to serve, or another one in
  // the place of the served one. If it cannot be used, that is logged once, and the model stays.
  // kUsage, kData, kResource: no snapshot can be used.
  static Result<std::unique_ptr<NewestModel>> open(const std::string& directory, Choice choice,
                                                   const ModelOptions& options, Counters& counters,
                                                   std::chrono::milliseconds period);
  ~NewestModel();

  // The current model. A request keeps the model that it began with.
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
  // Paths of the snapshots that may be served, the preferred one first.
  Result<std::vector<std::string>> candidates() const;
  // Loads the first candidate that can be used, unless no candidate has changed since the last
  // call.
  Status look();
  void follow(std::chrono::milliseconds period);

  const std::string folder_;  // or the path of the only snapshot
  const Choice choice_;
  const ModelOptions options_;
  Counters& counters_;
  bool is_snapshot_ = false;
  std::string seen_;    // the marks of the candidates at the last look()
  std::string served_;  // the mark of the snapshot that is served

  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_over_ = false;
  std::shared_ptr<const Model> model_;
  std::thread follower_;
};

struct ServiceOptions {
  // Required in every request but /healthz. Empty: no token, and the Host of a request must be this
  // machine, so that no page in a browser here can send requests under a name of its own (DNS
  // rebinding).
  Bytes token = {};
  std::uint32_t threads = 1;
  std::uint32_t queue_max = 128;  // requests that wait for a thread
};

class Service final : public http::Service {
 public:
  // Both must outlive the service.
  Service(NewestModel& model, Counters& counters, ServiceOptions options);
  ~Service() override;  // waiting requests get no answer

  std::optional<Reply> refuse(const Request& head) const override;
  void answer(Request request, std::function<void(Reply)> done) override;
  http::ConnectionCounts& connections() override { return counters_.connections; }

 private:
  struct Waiting {
    Request request;
    std::function<void(Reply)> done;
    TimePoint since;
  };
  struct Route;
  static const Route* find_route(std::string_view path);

  void work();
  // Moves the first request to `taken`, with the requests behind it that can be scored together
  // with it, but leaves the idle threads their share of the queue.
  void take(std::vector<Waiting>& taken);
  std::vector<Reply> compute(std::span<const Waiting> requests, Model::Scratch& scratch) const;
  std::vector<Reply> predict(std::span<const Waiting> requests, Model::Scratch& scratch) const;
  Reply read_rows(const Request& request, Model::Scratch& scratch) const;

  NewestModel& model_;
  Counters& counters_;
  const ServiceOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> queue_;
  std::size_t idle_ = 0;  // threads that wait for a request
  bool is_over_ = false;
  std::vector<std::thread> threads_;  // last, because they use all of the above
};

}  // namespace paddle::serve
