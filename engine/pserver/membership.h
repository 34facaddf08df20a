// The trainers of a job as one shard sees them: which are connected, the check of their
// incarnations, each one's push, and its request that still waits for an answer.
#pragma once

#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/tally.h"
#include "engine/net/link.h"
#include "engine/pserver/push.h"

namespace paddle::pserver {

// An error that is sent to one trainer.
struct Refusal {
  wire::RefusalCode code = wire::REFUSAL_PROTOCOL;
  std::string message;
  std::string hint = {};
  Errc exit_code = Errc::kFailed;  // for a process that ends because of it
};
using Refused = std::optional<Refusal>;
template <class... Args>
Refusal protocol_error(fmt::format_string<Args...> message, Args&&... args) {
  return Refusal{wire::REFUSAL_PROTOCOL, fmt::format(message, std::forward<Args>(args)...)};
}

enum class WaitFor : std::uint8_t {
  kReady,   // Ready waits for initial values
  kStep,    // a pull waits for its step
  kUpdate,  // a push waits for its update
  kPass     // FinishPass waits for the other trainers
};

// A trainer's request that is not answered yet; a trainer has at most one.
struct Waiter {
  WaitFor what = WaitFor::kReady;
  std::uint64_t request = 0;
  TimePoint since, next_notice;
  Frame frame;  // a deferred pull
};

struct Trainer {
  std::uint32_t id = 0;
  bool joined = false;  // at least once
  bool connected = false;
  bool finished = false;  // has no more data in this pass, or pauses in it
  bool pauses = false;
  bool left = false;
  bool is_busy = false;        // tests or saves, until its next push or end of a pass
  bool knows_of_stop = false;  // an answer said that the job is to stop
  net::PeerId peer = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t last_request = 0;
  std::uint64_t last_applied = 0;
  // Async: batches that the shard had applied at its last reply to this trainer.
  std::uint64_t seen_updates = 0;
  std::uint64_t clock = 0;  // its batches that are applied in this pass
  std::optional<TimePoint> lost_at;
  std::optional<Push> push;
  Tally tally;  // for the pass, once this trainer has finished it
  std::optional<Waiter> waiter;

  bool active() const { return !left && !finished; }
  bool has_complete_push() const { return push && push->complete(); }
};

class Membership {
 public:
  explicit Membership(std::uint32_t num_trainers);

  // A trainer joins, repeats its request to join, or returns with a higher incarnation, which
  // starts from what is applied. Refuses an id out of range, a lower incarnation, and a second open
  // connection of the same incarnation.
  Refused join(net::PeerId from, const FrameHeader& header);
  // The trainer that sent a frame; null, and a refusal, if the frame is not accepted.
  Trainer* find(net::PeerId from, const FrameHeader& header, Refusal& refusal);
  // The connected trainer of this connection, or null.
  Trainer* by_peer(net::PeerId from);

  std::vector<Trainer>& trainers() { return trainers_; }
  const std::vector<Trainer>& trainers() const { return trainers_; }
  Trainer& at(std::uint32_t id) { return trainers_[id]; }

  bool all_gone() const;  // every trainer left, or joined and was lost for good
  bool any_other_left(const Trainer& trainer) const;
  bool any_connected() const;
  // The fewest batches of this pass that any active trainer has done, and how many more the fastest
  // active trainer has done.
  std::uint64_t slowest_clock() const;
  std::uint64_t clock_lead() const;
  // The trainers for which `which` is true, as "trainers 1, 3", but only a few of them. Sets
  // `all_connected` to whether all of them are connected.
  std::string names(const std::function<bool(const Trainer&)>& which, bool& all_connected) const;

 private:
  std::vector<Trainer> trainers_;
};

}  // namespace paddle::pserver
