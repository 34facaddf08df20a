// One port of a pserver: its share of the parameters and of every round. Passive: frames and ticks
// in, replies out.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "engine/net/link.h"
#include "engine/pserver/delay_compensation.h"
#include "engine/pserver/membership.h"
#include "engine/pserver/round.h"
#include "engine/pserver/update_policy.h"
#include "engine/table/dense_table.h"
#include "proto/frame_type.h"

namespace paddle::pserver {

constexpr std::uint32_t kTrainersMax = 4096;
constexpr std::uint32_t kPushPartsMax = 4096;
constexpr std::uint64_t kMergedBatchesMax = 1ULL << 20U;   // of one push
constexpr std::uint64_t kPushBytesMax = 4ULL << 30U;       // one trainer's batch on one shard
constexpr std::uint64_t kTransferBytesMax = 32ULL << 20U;  // tail of one frame, both ways
constexpr std::size_t kParameterSetBytesMax = 4U << 20U;
constexpr Duration kNoticePeriod = std::chrono::seconds(1);  // between Waiting frames

struct ShardOptions {
  UpdatePolicyFactory make_policy = nullptr;  // the strategies' halves on shards
  std::uint32_t index = 0;                    // among all dense, or all sparse, shards of the job
  bool is_sparse = false;
  std::uint32_t num_gradient_servers = 1;  // 1 to kTrainersMax
  std::uint64_t job_tag = 0;
  std::uint64_t epoch = 0;
  Duration lost_trainer_grace = Duration::zero();
  bool needs_all_trainers = false;  // async too ends with a lost one: the job is started again
  std::uint64_t bytes_max = 1ULL << 40U;  // parameters and optimizer state
  bool sends_values = true;  // with the answer to a push; false: its trainer reads them in memory
  Parallel parallel = {};    // helps with many elements or rows; empty: the port's thread
  MemoryPreparer* preparer = nullptr;  // of sparse tables; outlives the shard
};

// What a port holds and has done since the job began.
struct ShardStatistics {
  std::uint64_t rows = 0;   // of sparse tables
  std::uint64_t bytes = 0;  // parameters and optimizer state
  std::uint64_t pushes = 0;
  std::uint64_t batches = 0;        // a merged push has several
  std::vector<std::uint64_t> lags;  // pushes by lag_bucket
};

class Shard final : public net::FrameHandler {
 public:
  explicit Shard(ShardOptions options);

  void on_frame(TimePoint now, net::PeerId from, Frame&& frame,
                std::vector<net::Outgoing>& out) override;
  void on_frame_in_pieces(TimePoint now, net::PeerId from, Frame&& frame,
                          std::span<const ByteSpan> pieces,
                          std::vector<net::Outgoing>& out) override;
  void on_disconnect(TimePoint now, net::PeerId from, std::vector<net::Outgoing>& out) override;
  void on_tick(TimePoint now, std::vector<net::Outgoing>& out) override;

  // The job is over for this port: every trainer has left or was lost, or those who may still come
  // could not go on.
  bool finished() const {
    return membership_.all_gone() || (failure_ && !membership_.any_connected());
  }
  // Why the job cannot go on ("trainer 2 lost at step 17"), or "".
  std::string failure() const { return failure_ ? failure_->message : ""; }
  bool ready() const { return ready_; }
  std::uint64_t step() const { return step_; }  // rounds committed
  // Async: batches of this pass that the fastest trainer still active is ahead of the slowest.
  std::uint64_t clock_lead() const { return membership_.clock_lead(); }
  // Null until the first trainer joined, and on the other kind of shard.
  const table::DenseTable* dense() const { return dense_ ? &*dense_ : nullptr; }
  const table::SparseTable* sparse(std::uint32_t parameter) const;
  ShardStatistics statistics() const;

 private:
  using Refused = std::optional<Refusal>;
  struct Call {
    TimePoint now;
    Trainer& trainer;
    Frame& frame;
    std::vector<net::Outgoing>& out;
    std::uint64_t request = 0;
  };

  // Dispatch (shard.cc).
  Refused dispatch(Call& call);
  template <class Message>
  Refused handle(Call& call, Refused (Shard::*handler)(Call&, const Message&));
  Refused on_join(TimePoint now, net::PeerId from, Frame& frame, std::vector<net::Outgoing>& out);
  Refused set_up(const wire::ParameterSet& set);
  Refused on_ready(Call& call, const wire::Ready& message);
  Refused on_leave(Call& call, const wire::Leave& message);
  void wait(Call& call, WaitFor what);
  void fail(std::string message, std::vector<net::Outgoing>& out);
  void notice(TimePoint now, Trainer& trainer, std::vector<net::Outgoing>& out);

  // Values and rows in and out (shard_read.cc).
  Refused on_load_begin(Call& call, const wire::LoadBegin& message);
  Refused on_put_dense(Call& call, const wire::PutDense& message);
  Refused on_put_rows(Call& call, const wire::PutRows& message);
  Refused on_pull_dense(Call& call, const wire::PullDense& message);
  Refused on_pull_rows(Call& call, const wire::PullRows& message);
  Refused only_loading(const Call& call) const;

  // What snapshots are made of (shard_export.cc).
  Refused on_export_rows(Call& call, const wire::ExportRows& message);
  // Fills export_entries_ with rows or candidates; returns where to go on, or 0.
  std::uint64_t scan_rows(table::SparseTable& table, const wire::ExportRows& message,
                          std::uint64_t wanted);
  void export_removed(Call& call, table::RowChanges& changes, const wire::ExportRows& message);

  // Rounds (shard_push.cc).
  Refused on_push_dense(Call& call, const wire::PushDense& message);
  Refused on_push_rows(Call& call, const wire::PushRows& message);
  // Makes trainer.push ready to take the part; is_answered: it was a repeat and is dealt with.
  Refused begin_part(Call& call, const wire::PushPart& part, bool& is_answered);
  Refused end_part(Call& call);
  bool can_borrow(const Frame& frame, const wire::PushDense& message) const;
  Status add_dense(Push& push, const wire::PushDense& message, Bytes&& tail) const;
  Refused check_values(const Call& call, const Push& push);
  // Memory for the rows that these segments create, so that applying them cannot fail.
  Refused check_room(std::span<const RowSegment> segments, std::uint64_t contributors);
  Refused check_table(std::uint32_t parameter, std::span<const RowSegment> segments,
                      std::uint64_t contributors) const;
  // Makes every update that the policy allows now.
  void advance(TimePoint now, std::vector<net::Outgoing>& out);
  void apply(std::span<Trainer* const> trainers, std::vector<net::Outgoing>& out);
  void apply_dense(float learning_rate, std::span<const Push* const> pushes, std::uint32_t trainer);
  void release_pulls(TimePoint now, std::vector<net::Outgoing>& out);

  // The end of a pass (shard_pass.cc).
  Refused on_finish_pass(Call& call, const wire::FinishPass& message);
  Refused take_tally(Call& call, const wire::FinishPass& message);
  void try_finish_pass(std::vector<net::Outgoing>& out);
  void reply_pass_finished(const Trainer& trainer, std::uint64_t request,
                           wire::PassFinished message, const Tally& tally,
                           std::vector<net::Outgoing>& out);
  // Ends the wait of every trainer in the middle of the pass.
  void pause(std::vector<net::Outgoing>& out);

  Refused set_up_compensation(const wire::ParameterSet& set);

  template <class Message>
  void reply(const Trainer& trainer, FrameType type, const Message& message, Bytes tail,
             std::vector<net::Outgoing>& out);
  void refuse(net::PeerId to, std::uint64_t request, const Refusal& refusal,
              std::vector<net::Outgoing>& out) const;
  FrameHeader reply_header(FrameType type) const;
  void reply_position(Call& call);
  void reply_pushed(Trainer& trainer, std::uint64_t request, bool is_discarded,
                    std::vector<net::Outgoing>& out);

  ShardOptions options_;
  Membership membership_;
  std::optional<wire::ParameterSet> set_;
  std::unique_ptr<UpdatePolicy> policy_;  // from set_
  std::optional<table::DenseTable> dense_;
  std::optional<DelayCompensation> compensation_;
  SparseTables tables_;
  std::vector<std::uint64_t> widths_;       // of a pull
  std::vector<std::uint64_t> push_widths_;  // with notes
  std::vector<table::RowIndex::Entry> export_entries_;
  std::optional<Refusal> failure_;
  bool ready_ = false;
  bool stop_ = false;  // a trainer has asked for the job's end
  std::uint64_t step_ = 0;
  std::uint64_t updates_ = 0;   // async: batches applied
  std::uint64_t progress_ = 0;  // requests taken
  std::uint64_t passes_finished_ = 0;
  std::uint64_t samples_ = 0;      // of the whole job
  ShardStatistics ended_;          // pushes, batches and lags of the passes that ended
  wire::PassFinished totals_;      // of the pass that runs
  wire::PassFinished last_pass_;   // for a FinishPass that comes again
  wire::PassFinished last_pause_;  // likewise
  Tally last_tally_;
  std::span<const ByteSpan> lent_;  // what follows the tail of the frame in hand
  std::vector<float> scratch_;
  std::vector<float> part_scratch_;
};

template <class Message>
void Shard::reply(const Trainer& trainer, FrameType type, const Message& message, Bytes tail,
                  std::vector<net::Outgoing>& out) {
  net::Outgoing outgoing;
  outgoing.to = trainer.peer;
  outgoing.frame.header = reply_header(type);
  outgoing.frame.header.sequence = trainer.last_applied;
  outgoing.frame.head = message.SerializeAsString();
  outgoing.frame.tail = std::move(tail);
  out.push_back(std::move(outgoing));
}

}  // namespace paddle::pserver
