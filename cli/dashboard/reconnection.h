// Connects a session to its nodes in the background, again and again with growing pauses, so that a
// node that does not answer delays no other.
#pragma once

#include <map>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"

namespace paddle::cli {

constexpr auto kReconnectFirst = std::chrono::seconds(1);
constexpr auto kReconnectMax = std::chrono::seconds(60);
// A node without the cluster's folder may get one from `paddlectl up`.
constexpr auto kAbsentAgain = std::chrono::seconds(30);

class Reconnection {
 public:
  // `patience`: for each later answer of a node.
  Reconnection(Context& context, Duration patience);
  // Waits for the attempts that are in progress.
  ~Reconnection();
  Reconnection(const Reconnection&) = delete;
  Reconnection& operator=(const Reconnection&) = delete;

  // Takes the connections that were made, and starts attempts for members that have none and whose
  // pause is over. Returns at once. A member's error is that of the last attempt.
  void round(ClusterSession& session, TimePoint now);
  // Whether an attempt has ended that round() has not taken yet.
  bool has_news() const;
  bool is_trying() const { return !attempts_.empty(); }
  // Waits for the attempts that are in progress; the next round() takes their connections.
  void wait();
  // Whether a first attempt for the member has ended.
  bool was_tried(std::size_t member) const;

 private:
  struct Attempt;
  struct Pause {
    Duration length{};  // before the next attempt; 0: none has failed
    TimePoint until{};
    bool was_tried = false;
    bool was_connected = false;
  };
  void take(ClusterSession& session, TimePoint now);
  void start(const ClusterSession& session, std::size_t index);

  Context& context_;
  Duration patience_;
  std::map<std::size_t, std::unique_ptr<Attempt>> attempts_;  // by member
  std::map<std::size_t, Pause> pauses_;                       // by member
};

}  // namespace paddle::cli
