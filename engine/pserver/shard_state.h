// The state that the parts of a shard share, and the replies that they send.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/pserver/merge.h"
#include "engine/pserver/options.h"
#include "engine/table/dense_table.h"

namespace paddle::pserver {

// Contents of a port, and its work since the process began.
struct ShardStatistics {
  std::uint64_t rows = 0;   // in sparse tables
  std::uint64_t bytes = 0;  // parameters and optimizer state
  std::uint64_t pushes = 0;
  std::uint64_t batches = 0;  // a merged push has several
  // Pushes by lag: 0, 1, 2-3, 4-7, ... A push's lag is the number of batches that the shard had
  // applied since it last gave the trainer values or rows.
  std::vector<std::uint64_t> lags;
};

// The parameters of one shard: dense blocks or sparse tables, and the policy that updates them. All
// are created when the first trainer sends the parameter set.
class ShardParameters {
 public:
  explicit ShardParameters(const ShardOptions& options) : options_(options) {}

  Refused create(const wire::ParameterSet& set);
  bool is_created() const { return set_.has_value(); }
  // The functions below require create().
  const wire::ParameterSet& set() const { return *set_; }
  const std::string& name(std::uint32_t parameter) const {
    return set_->parameters(static_cast<int>(parameter)).name();
  }
  const UpdatePolicy& policy() const { return *policy_; }
  float gradient_limit() const { return gradient_limit_; }

  // Null on a sparse shard, and before create().
  table::DenseTable* dense() { return dense_ ? &*dense_ : nullptr; }
  const table::DenseTable* dense() const { return dense_ ? &*dense_ : nullptr; }
  // Null if the parameter is no table of this shard.
  table::SparseTable* table(std::uint32_t parameter) const {
    return parameter < tables_.size() ? tables_[parameter].get() : nullptr;
  }
  const SparseTables& tables() const { return tables_; }
  // Floats of a row, in a pull and in a push.
  RowWidths widths() const { return widths_; }
  RowWidths push_widths() const { return push_widths_; }

  // Empties the tables, for a shard that goes back to a savepoint; dense values stay in place.
  void clear_tables();
  // Sets the initial values again.
  void begin_anew();

  // Reserves memory for the segments' rows, `contributors` times, so that applying them cannot
  // fail. Refuses rows that would exceed the port's limit or a table's own.
  Refused make_room(std::span<const RowSegment> segments, std::uint64_t contributors,
                    const Membership& membership);
  // Ages the tables at the end of a pass and adds their status to its totals.
  Status end_pass(wire::PassFinished& totals);
  void measure(ShardStatistics& statistics) const;
  std::uint64_t bytes() const;  // parameters and optimizer state

 private:
  Refused create_dense(const wire::ParameterSet& set);
  void create_tables(const wire::ParameterSet& set);
  Refused check_table(std::uint32_t parameter, std::span<const RowSegment> segments,
                      std::uint64_t contributors) const;
  Refused check_port(std::uint64_t held, std::span<const RowSegment> segments,
                     std::uint64_t contributors) const;

  const ShardOptions& options_;
  std::optional<wire::ParameterSet> set_;
  std::unique_ptr<UpdatePolicy> policy_;
  float gradient_limit_ = 0;
  std::optional<table::DenseTable> dense_;
  SparseTables tables_;
  std::vector<std::uint64_t> widths_;
  std::vector<std::uint64_t> push_widths_;
};

// The life of a shard. Names on the arrows are frames of trainer 0.
//
//           LoadBegin             Ready
//   [empty] ----------> [loading] ------> [ready] --- all trainers left or are lost ---> [over]
//      |                                   ^   |
//      |   Ready, if no values are loaded  |   |
//      +-----------------------------------+   |
//      |                             Ready |   | GoBack
//      |   GoBack                          |   v
//      +--------------------------------> [went back]
//
// A Join of trainer 0 leads from [loading] or [went back] to [empty]: the process that joins
// decides anew. Shard::fail() leads from any state to [failed], and from there to [over] once no
// trainer is connected or kFailureLinger has passed.
struct ShardProgress {
  std::uint64_t generation = 0;  // the server's, and a new one after each rollback
  bool ready = false;            // the initial values are in place
  bool is_loading = false;       // trainer 0 has sent some of them, or named a savepoint
  bool went_back = false;        // the initial values are those of a savepoint
  bool stop = false;             // a trainer has asked for the job's end
  bool has_leaver = false;       // a trainer has said that it leaves
  std::uint64_t step = 0;        // updates of the whole job; with rounds, the current round
  std::uint64_t updates = 0;     // batches applied outside rounds, by which a push's lag is counted
  std::uint64_t requests = 0;    // handled for trainers, and ticks with a busy trainer
  std::uint64_t passes_finished = 0;
  std::uint64_t passes_loaded = 0;  // the passes before this process began
  std::uint64_t pauses = 0;         // pauses that ended since the last end of a pass
  std::uint64_t samples = 0;        // in the whole job
  wire::PassFinished pass;          // totals of the current pass
  wire::PassOrigins origins = {};   // from the snapshot that the job continues from
};

// Announcements of trainers and shards about savepoints. In rounds the first shard
// announces a savepoint in the answers of a round; every trainer asks all shards for it with its
// next push.
struct SavepointSignals {
  bool is_due = false;                     // the next round's answers announce a savepoint
  std::optional<std::uint64_t> announced;  // by the answers of this step
  bool is_asked = false;                   // by a push of the latest round
  std::vector<std::uint64_t> whole;        // savepoints of this shard, ascending
  std::uint64_t whole_everywhere = 0;      // the newest that all shards can go back to

  std::uint64_t newest_whole() const { return whole.empty() ? 0 : whole.back(); }
};

// A trainer's request while a shard handles it.
struct Request {
  TimePoint now;
  Trainer& trainer;
  Frame& frame;
  std::vector<net::Outgoing>& out;
  std::uint64_t id = 0;

  // Defers the answer. A pull is kept, to be handled again.
  Refused wait(WaitFor what) const {
    trainer.waiter = Waiter{what, id, now, now + kNoticePeriod, {}};
    if (what == WaitFor::kStep) trainer.waiter->frame = std::move(frame);
    return {};
  }
};

// A request of a reader, which is no trainer: it is answered at once, and nothing is kept of it.
struct ReaderRequest {
  net::PeerId from;
  const Frame& frame;
  std::vector<net::Outgoing>& out;
};

// The frames that answer requests.
class Replies {
 public:
  using Out = std::vector<net::Outgoing>;

  Replies(const ShardOptions& options, const ShardProgress& progress)
      : options_(options), progress_(progress) {}

  template <class Message>
  void send(const Trainer& trainer, FrameType type, const Message& message, Bytes tail,
            Out& out) const {
    send(trainer.peer, type, message, std::move(tail), out);
    out.back().frame.header.sequence = trainer.last_applied;
  }
  template <class Message>
  void send(net::PeerId to, FrameType type, const Message& message, Bytes tail, Out& out) const {
    net::Outgoing& outgoing = add(to, type, out);
    outgoing.frame.head = message.SerializeAsString();
    outgoing.frame.tail = std::move(tail);
  }
  // Sends an answer that contains only the number of its request.
  template <class Message>
  Refused acknowledge(const Request& request, FrameType type) const {
    Message message;
    message.set_request(request.id);
    send(request.trainer, type, message, {}, request.out);
    return {};
  }
  // Sends the job's position to a trainer that starts.
  void position(Trainer& trainer, std::uint64_t request, const Membership& membership,
                const SavepointSignals& savepoints, bool has_rounds, Out& out) const;
  void refuse(net::PeerId to, std::uint64_t request, const Refusal& refusal, Out& out) const;

 private:
  net::Outgoing& add(net::PeerId to, FrameType type, Out& out) const;

  const ShardOptions& options_;
  const ShardProgress& progress_;
};

struct ShardState {
  explicit ShardState(ShardOptions given)
      : options(std::move(given)), membership(options.num_gradient_servers) {
    progress.generation = options.server_generation;
  }
  ShardState(const ShardState&) = delete;
  ShardState& operator=(const ShardState&) = delete;

  const ShardOptions options;
  ShardProgress progress;
  SavepointSignals savepoints;
  Membership membership;
  ShardParameters parameters{options};
  const Replies replies{options, progress};

  // REQUIRES: the parameters are created.
  void send_position(Trainer& trainer, std::uint64_t request, Replies::Out& out) {
    replies.position(trainer, request, membership, savepoints, parameters.policy().has_rounds(),
                     out);
  }
};

}  // namespace paddle::pserver
