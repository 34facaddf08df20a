// The end of a pass: every active trainer has said that it has no more data, totals go back to
// them, and tables age. Or a pause in the middle of a pass, which ends their wait alone.
#pragma once

#include "engine/pserver/shard_state.h"

namespace paddle::pserver {

class PassEnd {
 public:
  explicit PassEnd(ShardState& state) : state_(state) {}

  // Notes that the trainer has finished the pass and makes it wait, or answers a repeat.
  Refused on_finish(const Request& request, const wire::FinishPass& message);
  // Ends the pass, or pauses in it, once no trainer is active. Fails as SparseTable::end_pass().
  Status try_end(std::vector<net::Outgoing>& out);
  ShardStatistics statistics() const;

 private:
  Refused take_tally(const Request& request, const wire::FinishPass& message) const;
  void pause(std::vector<net::Outgoing>& out);
  Status end(std::vector<net::Outgoing>& out);
  // Completes `totals` with how far the job is, adds the trainers' tallies up, and starts anew.
  void close(wire::PassFinished& totals);
  void answer_all(const wire::PassFinished& totals, std::vector<net::Outgoing>& out);
  void answer(const Trainer& trainer, std::uint64_t request, wire::PassFinished totals,
              std::vector<net::Outgoing>& out) const;

  ShardState& state_;
  ShardStatistics ended_;          // pushes, batches and lags of the passes that ended
  wire::PassFinished last_pass_;   // for a FinishPass that comes again
  wire::PassFinished last_pause_;  // likewise
  Tally last_tally_;
};

}  // namespace paddle::pserver
