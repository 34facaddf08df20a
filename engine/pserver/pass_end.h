// The end of a pass: every active trainer has said that it has no more data, totals go back to
// them, and tables age. Or a pause in the middle of a pass, which ends their wait alone.
#pragma once

#include <deque>

#include "engine/pserver/shard_state.h"
#include "proto/cut.pb.h"

namespace paddle::pserver {

class PassEnd {
 public:
  // Trainers that go back to a cut end passes again: at most so many, see Cuts.
  static constexpr std::size_t kEndedPasses = 3;

  explicit PassEnd(ShardState& state) : state_(state) {}

  // Notes that the trainer has finished the pass and makes it wait, or answers a repeat.
  Refused on_finish(const Request& request, const wire::FinishPass& message);
  // Ends the pass, or pauses in it, once no trainer is active; without `may_end` only the latter.
  // Fails as SparseTable::end_pass().
  Status try_end(bool may_end, std::vector<net::Outgoing>& out);
  ShardStatistics statistics() const;

  // For a cut, and from one: kData.
  void save(wire::CutState& cut) const;
  Status restore(const wire::CutState& cut);
  // No pass has ended.
  void forget();

 private:
  // The totals that trainers were told, for a FinishPass that comes again.
  struct Ended {
    wire::PassFinished totals;
    Tally tally;
  };
  bool answer_repeat(const Request& request, const wire::FinishPass& message) const;
  Refused take_tally(const Request& request, const wire::FinishPass& message) const;
  void pause(std::vector<net::Outgoing>& out);
  Status end(std::vector<net::Outgoing>& out);
  // The totals with how far the job is and the sum of the trainers' tallies, which start anew.
  Ended close();
  void answer_all(const Ended& ended, std::vector<net::Outgoing>& out);
  void answer(const Trainer& trainer, std::uint64_t request, const Ended& ended,
              std::vector<net::Outgoing>& out) const;

  ShardState& state_;
  ShardStatistics counted_;   // pushes, batches and lags of the passes that ended
  std::deque<Ended> passes_;  // ended, the newest last
  Ended pause_;               // the last one
};

}  // namespace paddle::pserver
