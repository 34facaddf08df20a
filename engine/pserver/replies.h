// A trainer's request while a shard handles it, and the frames that answer it.
#pragma once

#include "engine/pserver/options.h"
#include "engine/pserver/progress.h"
#include "proto/frame_type.h"

namespace paddle::pserver {

struct Request {
  TimePoint now;
  Trainer& trainer;
  Frame& frame;
  std::vector<net::Outgoing>& out;
  std::uint64_t id = 0;

  // Puts the answer off. A pull is kept, to be handled again.
  void wait(WaitFor what) const {
    trainer.waiter = Waiter{what, id, now + kNoticePeriod, {}};
    if (what == WaitFor::kStep) trainer.waiter->frame = std::move(frame);
  }
};

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
  void acknowledge(const Request& request, FrameType type) const {
    Message message;
    message.set_request(request.id);
    send(request.trainer, type, message, {}, request.out);
  }
  // The job's position, to a trainer that starts.
  void position(Trainer& trainer, std::uint64_t request, const Membership& membership,
                Out& out) const;
  void refuse(net::PeerId to, std::uint64_t request, const Refusal& refusal, Out& out) const;

 private:
  net::Outgoing& add(net::PeerId to, FrameType type, Out& out) const;

  const ShardOptions& options_;
  const ShardProgress& progress_;
};

}  // namespace paddle::pserver
