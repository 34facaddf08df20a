// The state that the parts of a shard share, and the replies that they send.
#pragma once

#include "engine/pserver/shard_parameters.h"

namespace paddle::pserver {

struct ShardProgress {
  std::uint64_t generation = 0;  // of the server, and anew whenever the shard goes back
  bool ready = false;            // the initial values are in place
  bool is_loading = false;       // trainer 0 has sent some of them, or named a cut
  bool went_back = false;        // they are those of a cut
  bool stop = false;             // a trainer has asked for the job's end
  bool has_leaver = false;       // a trainer has said that it leaves
  std::uint64_t step = 0;        // updates of the whole job; with rounds, the current round
  std::uint64_t updates = 0;     // batches applied outside rounds, by which a push's lag is counted
  std::uint64_t requests = 0;    // taken from trainers, and ticks with a busy one
  std::uint64_t passes_finished = 0;
  std::uint64_t passes_loaded = 0;  // of them, before this process began
  std::uint64_t pauses = 0;         // ended since the last end of a pass
  std::uint64_t samples = 0;        // of the whole job
  wire::PassFinished pass;          // totals of the current pass
  wire::PassOrigins origins = {};   // of the snapshot that the job goes on from
};

// Cuts, as trainers and shards tell each other of them. In rounds the first shard announces a cut
// with the answers of a round; every trainer asks all shards for it with its next push.
struct CutSignals {
  bool is_due = false;                     // the next round's answers announce a cut
  std::optional<std::uint64_t> announced;  // with the answers of this step
  bool is_asked = false;                   // by a push of the latest round
  std::vector<std::uint64_t> whole;        // cuts of this shard, ascending
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

  // Puts the answer off. A pull is kept, to be handled again.
  Refused wait(WaitFor what) const {
    trainer.waiter = Waiter{what, id, now, now + kNoticePeriod, {}};
    if (what == WaitFor::kStep) trainer.waiter->frame = std::move(frame);
    return {};
  }
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
    net::Outgoing& outgoing = add(trainer.peer, type, out);
    outgoing.frame.header.sequence = trainer.last_applied;
    outgoing.frame.head = message.SerializeAsString();
    outgoing.frame.tail = std::move(tail);
  }
  // An answer that says no more than which request it is for.
  template <class Message>
  Refused acknowledge(const Request& request, FrameType type) const {
    Message message;
    message.set_request(request.id);
    send(request.trainer, type, message, {}, request.out);
    return {};
  }
  // The job's position, to a trainer that starts.
  void position(Trainer& trainer, std::uint64_t request, const Membership& membership,
                const CutSignals& cuts, bool has_rounds, Out& out) const;
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
  CutSignals cuts;
  Membership membership;
  ShardParameters parameters{options};
  const Replies replies{options, progress};

  // For after the parameters are created.
  void send_position(Trainer& trainer, std::uint64_t request, Replies::Out& out) {
    replies.position(trainer, request, membership, cuts, parameters.policy().has_rounds(), out);
  }
};

}  // namespace paddle::pserver
