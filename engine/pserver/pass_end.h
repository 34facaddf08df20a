// The end of a pass: once every active trainer has reported that it has no more data, the totals
// are sent to the trainers, and tables age. A pause in the middle of a pass releases the waiting
// trainers without ending the pass.
#pragma once

#include <deque>

#include "engine/pserver/shard_state.h"
#include "proto/savepoint.pb.h"

namespace paddle::pserver {

class PassEnd {
 public:
  // Trainers that go back to a savepoint repeat at most this many ends of passes; see Savepoints.
  static constexpr std::size_t kEndedPasses = 3;

  explicit PassEnd(ShardState& state) : state_(state) {}

  // Records that the trainer has finished the pass and lets it wait, or answers a repeat.
  Refused on_finish(const Request& request, const wire::FinishPass& message);
  // Ends the pass, or pauses in it, once no trainer is active. Without `may_end` it only pauses.
  // Fails as SparseTable::end_pass() does.
  Status try_end(bool may_end, std::vector<net::Outgoing>& out);
  ShardStatistics statistics() const;

  // Stores the ended passes in a savepoint, and restores them from one: kData.
  void save(wire::SavepointState& savepoint) const;
  Status restore(const wire::SavepointState& savepoint);
  // Resets all to the state in which no pass has ended.
  void forget();

 private:
  // The totals that were sent to trainers, for a FinishPass that is repeated.
  struct Ended {
    wire::PassFinished totals;
    Tally tally;
  };
  bool answer_repeat(const Request& request, const wire::FinishPass& message) const;
  Refused take_tally(const Request& request, const wire::FinishPass& message) const;
  void pause(std::vector<net::Outgoing>& out);
  Status end(std::vector<net::Outgoing>& out);
  // Returns the totals, with the job's progress and the sum of the trainers' tallies, and resets
  // these tallies.
  Ended close();
  void answer_all(const Ended& ended, std::vector<net::Outgoing>& out);
  void answer(const Trainer& trainer, std::uint64_t request, const Ended& ended,
              std::vector<net::Outgoing>& out) const;

  ShardState& state_;
  ShardStatistics counted_;   // pushes, batches and lags of the ended passes
  std::deque<Ended> passes_;  // ended passes, the newest last
  Ended pause_;               // the last pause
};

}  // namespace paddle::pserver
