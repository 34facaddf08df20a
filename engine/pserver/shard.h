// One port of a pserver: stores a part of the job's parameters, and applies that part of every
// update. Passive: gets frames and ticks, and returns replies.
#pragma once

#include <optional>

#include "engine/pserver/push_assembly.h"
#include "engine/pserver/savepoints.h"
#include "engine/pserver/updates.h"
#include "engine/pserver/value_transfer.h"
#include "engine/pserver/waiting.h"

namespace paddle::pserver {

class Shard final : public net::FrameHandler {
 public:
  explicit Shard(ShardOptions options);

  void on_frame(TimePoint now, net::PeerId from, Frame&& frame,
                std::vector<net::Outgoing>& out) override;
  void on_disconnect(TimePoint now, net::PeerId from, std::vector<net::Outgoing>& out) override;
  void on_tick(TimePoint now, std::vector<net::Outgoing>& out) override;

  // Whether the job is over for this port: every trainer has left or was lost, or the job has
  // failed and no trainer is connected or kFailureLinger has passed. The time limit is for a
  // trainer that hangs, which keeps its connection.
  bool finished() const {
    return state_.membership.all_gone() ||
           (failure_ && (has_lingered_ || !state_.membership.any_connected()));
  }
  // Why the job cannot go on ("trainer 2 lost at step 17"), or "".
  std::string failure() const { return failure_ ? failure_->message : ""; }
  // Whether a trainer ended with an error of its own, which no restart fixes.
  bool is_given_up() const { return failure_ && failure_->code == wire::REFUSAL_ABANDONED; }
  // The exit code of the pserver. It is that of the trainer which gave the job up, so that the job
  // ends with this code whichever process is seen to end first.
  Errc exit_code() const { return is_given_up() ? failure_->exit_code : Errc::kUnreachable; }
  bool ready() const { return state_.progress.ready; }
  // Whether the place of a lost trainer is kept for its next process.
  bool takes_back_trainers() const {
    return state_.options.lost_trainer_grace > Duration::zero() && state_.parameters.is_created() &&
           state_.parameters.set().trainers_return();
  }
  std::uint64_t step() const { return state_.progress.step; }
  // Batches of this pass that the fastest active trainer is ahead of the slowest.
  std::uint64_t clock_lead() const { return state_.membership.clock_lead(); }
  // Null until the first trainer joined, and on the other kind of shard.
  const table::DenseTable* dense() const { return state_.parameters.dense(); }
  const table::SparseTable* sparse(std::uint32_t parameter) const {
    return state_.parameters.table(parameter);
  }
  ShardStatistics statistics() const { return pass_end_.statistics(); }
  std::optional<Awaited> awaited() const { return pserver::awaited(state_); }

 private:
  Refused dispatch(Request& request);
  // Parses the request. Answers repeats, refuses requests after a failure, and calls the handler
  // for the others.
  template <class Part, class Message>
  Refused handle(Request& request, Part& part,
                 Refused (Part::*handler)(const Request&, const Message&));

  // Answers a reader's request from the values as they are. Changes nothing of the job.
  Refused on_reader(const ReaderRequest& request);
  template <class Message>
  Refused handle(const ReaderRequest& request,
                 Refused (ValueTransfer::*handler)(const ReaderRequest&, const Message&));

  // Pushes, and the updates and ends of passes that a request makes possible.
  template <class Message>
  Refused on_push(const Request& request, const Message& message);
  // Makes the updates that are possible, and answers the requests that waited for them.
  void advance(TimePoint now, std::vector<net::Outgoing>& out);
  void release_pulls(TimePoint now, std::vector<net::Outgoing>& out);
  Refused on_finish_pass(const Request& request, const wire::FinishPass& message);
  void try_end_pass(std::vector<net::Outgoing>& out);
  Refused on_busy(const Request& request, const wire::Busy& message);

  // From a trainer's Join to Ready. The first trainer sends the parameter set; all others must have
  // the same one.
  Refused on_join(TimePoint now, net::PeerId from, const Frame& frame,
                  std::vector<net::Outgoing>& out);
  Refused check_join(net::PeerId from, std::uint32_t trainer, const wire::Join& message,
                     const wire::ParameterSet& set);
  Refused on_ready(const Request& request, const wire::Ready& message);
  Refused on_go_back(const Request& request, const wire::GoBack& message);

  // Lost trainers: how long the shard waits for them, and whether the job goes on without them.
  void on_abandon(TimePoint now, Trainer& trainer, const Frame& frame,
                  std::vector<net::Outgoing>& out);
  void on_lost(TimePoint now, Trainer& trainer, std::vector<net::Outgoing>& out);
  bool needs_all_trainers() const;  // the loss of any trainer ends the job
  // How long the place of a lost trainer is kept for its next process.
  Duration grace() const;
  Duration patience(const Trainer& trainer) const;  // grace() of this trainer
  // Starts the grace of trainers that are neither connected nor have left: they are lost unless
  // they join in time.
  void await_missing(TimePoint now);

  Refused on_leave(const Request& request, const wire::Leave& message);
  void on_job_over(const Request& request);
  void fail(Refusal why, std::vector<net::Outgoing>& out);

  ShardState state_;
  ValueTransfer values_{state_};
  PushAssembly pushes_{state_};
  Updates updates_{state_};
  PassEnd pass_end_{state_};
  Savepoints savepoints_{state_, pass_end_};
  Refused failure_;
  std::optional<TimePoint> lingers_until_;  // set by the first tick after the failure
  bool has_lingered_ = false;
};

}  // namespace paddle::pserver
