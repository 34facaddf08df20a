// The answers of the server: which requests there are, and the threads that score them, with one
// run of the network for those that wait together.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "engine/serve/newest_model.h"

namespace paddle::serve {

struct Request {
  std::string method, path, host, content_type, authorization, body;
  std::string content_encoding = {};
};

struct Reply {
  unsigned status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::string allow = {};      // of 405: the methods there are
  unsigned retry_seconds = 0;  // of 503
};

// {"error":{"message":"line 3: ..","hint":".."}}
Reply refusal(unsigned status, const std::string& message, const std::string& hint = "");

struct ServiceOptions {
  // Of every request but /healthz. Empty: none, and requests must be for this machine by name, so
  // that no page in a browser here can ask by a name of its own (DNS rebinding).
  Bytes token = {};
  std::uint32_t threads = 1;
  std::uint32_t queue_max = 128;  // requests that wait for a thread
};

class Service {
 public:
  // Both outlive it.
  Service(NewestModel& model, Counters& counters, ServiceOptions options);
  ~Service();  // requests that wait get no answer

  // The reply to a request that its head alone rules out.
  std::optional<Reply> refuse(const Request& head) const;
  // Calls `done` once, at once or from another thread. The request is one that is not refused.
  void answer(Request request, std::function<void(Reply)> done);

  Counters& counters() { return counters_; }

 private:
  struct Waiting {
    Request request;
    std::function<void(Reply)> done;
    TimePoint since;
  };
  struct Route;
  static const Route* find_route(std::string_view path);

  void work();
  // Moves the first request to `taken`, and those behind it that can be answered with it, but
  // leaves the idle threads their share of the queue.
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
