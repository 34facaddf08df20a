#include "cli/dashboard/reconnection.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace paddle::cli {

// A thread that connects to one node.
struct Reconnection::Attempt {
  Attempt(Context& context, const Member& gone) {
    member.node = gone.node;
    member.spec = gone.spec;
    thread = std::thread([this, &context] {
      connect_member(context, member, false);
      is_over = true;
      is_over.notify_all();
    });
  }
  ~Attempt() { thread.join(); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  Member member;  // the thread's until it is over
  std::atomic<bool> is_over = false;
  std::thread thread;
};

Reconnection::Reconnection(Context& context, Duration patience)
    : context_(context), patience_(patience) {}

Reconnection::~Reconnection() = default;

bool Reconnection::has_news() const {
  return std::ranges::any_of(attempts_,
                             [](const auto& attempt) { return attempt.second->is_over.load(); });
}

bool Reconnection::was_tried(std::size_t member) const {
  const auto found = pauses_.find(member);
  return found != pauses_.end() && found->second.was_tried;
}

void Reconnection::wait() {
  for (const auto& [index, attempt] : attempts_) attempt->is_over.wait(false);
}

void Reconnection::take(ClusterSession& session, TimePoint now) {
  for (auto attempt = attempts_.begin(); attempt != attempts_.end();) {
    if (!attempt->second->is_over) {
      ++attempt;
      continue;
    }
    Member& made = attempt->second->member;
    Member& member = session.members()[attempt->first];
    Pause& pause = pauses_[attempt->first];
    member.client = std::move(made.client);
    member.error = std::move(made.error);
    member.absent = made.absent;
    pause.was_tried = true;
    pause.was_connected = member.client != nullptr;
    if (member.client) {
      member.client->set_patience(patience_);
      member.is_examined = false;
    } else {
      pause.length = std::clamp<Duration>(2 * pause.length, kReconnectFirst, kReconnectMax);
      pause.until = now + (member.absent ? Duration(kAbsentAgain) : pause.length);
    }
    attempt = attempts_.erase(attempt);
  }
}

void Reconnection::start(const ClusterSession& session, std::size_t index) {
  attempts_.emplace(index, std::make_unique<Attempt>(context_, session.members()[index]));
}

void Reconnection::round(ClusterSession& session, TimePoint now) {
  take(session, now);
  for (std::size_t i = 0; i < session.members().size(); ++i) {
    Pause& pause = pauses_[i];
    if (session.members()[i].client) {
      // The node is well again only after it has answered for a while.
      if (now >= pause.until + kReconnectMax) pause.length = Duration();
      continue;
    }
    if (std::exchange(pause.was_connected, false)) {  // it was lost since the last round
      pause.until = now + pause.length;               // at once, unless it is lost again and again
      pause.length = std::clamp<Duration>(2 * pause.length, kReconnectFirst, kReconnectMax);
    }
    if (now < pause.until || attempts_.contains(i)) continue;
    if (attempts_.size() < context_.limits.at_once) start(session, i);
  }
}

}  // namespace paddle::cli
