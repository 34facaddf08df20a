#include "engine/sidecar/service.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "engine/sidecar/requests.h"

namespace paddle::sidecar {
namespace {

constexpr auto kAlivePeriod = std::chrono::seconds(1);
constexpr std::size_t kOutstandingMax = 4096;

class Service {
 public:
  Service(Channel& channel, SharedMemory& memory, Session& session, Training* training)
      : channel_(channel),
        session_(session),
        training_(training),
        requests_(memory, session, training) {}

  Status run() {
    std::thread worker = thread_without_signals([this] { work(); });
    std::thread alive = thread_without_signals([this] { say_alive(); });
    Status read = read_all();
    channel_.close();  // the program may not read what is being written
    {
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
      waiting_.clear();
    }
    changed_.notify_all();
    session_.interrupt({Errc::kUnreachable, "the program has closed the channel"});
    worker.join();
    alive.join();
    return read;
  }

 private:
  Status read_all() {
    Fields fields;
    for (;;) {
      PADDLE_TRY(auto request, channel_.read());
      if (!request) return {};
      const bool is_read = static_cast<bool>(fields.read(*request));
      if (is_read && answer_at_once(fields, request->number)) continue;
      const bool is_urgent = is_read && breaks_off(fields);
      const std::scoped_lock lock(mutex_);
      if (waiting_.size() >= kOutstandingMax) {
        return Error{Errc::kUsage, "the program has too many requests without an answer"};
      }
      waiting_.insert(is_urgent ? waiting_.begin() : waiting_.end(), *std::move(request));
      changed_.notify_all();
    }
  }

  // Requests that do not wait for those before them.
  bool answer_at_once(const Fields& fields, std::uint32_t number) {
    const bool stops = fields.op() == "stop" && training_ != nullptr;
    if (!stops && fields.op() != "alive") return false;
    if (stops) training_->ask_to_stop();
    channel_.write(number, JsonObject().add("ok", true));
    return true;
  }

  // Abandon ends the request at work, which may wait for the trainers that are to learn of it.
  bool breaks_off(const Fields& fields) {
    if (fields.op() != "abandon" || training_ == nullptr) return false;
    Error why;
    if (!fields.read_reason(why)) return false;
    training_->break_off(why);
    return true;
  }

  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_over_ || !waiting_.empty(); });
      if (is_over_) return;
      const Request request = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      const auto answer = requests_.answer(request);
      channel_.write(request.number, answer ? JsonObject().add("ok", true).add(*answer)
                                            : answer_of(answer.error()));
    }
  }

  void say_alive() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kAlivePeriod, [this] { return is_over_; })) {
      lock.unlock();
      const JsonObject event =
          JsonObject().add("event", std::string_view("alive")).add("waiting", session_.waiting());
      channel_.write(0, event);
      lock.lock();
    }
  }

  Channel& channel_;
  Session& session_;
  Training* training_;
  Requests requests_;  // used by the worker only

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> waiting_;
  bool is_over_ = false;
};

}  // namespace

Status serve(Channel& channel, SharedMemory& memory, Session& session, Training* training) {
  return Service(channel, memory, session, training).run();
}

}  // namespace paddle::sidecar
