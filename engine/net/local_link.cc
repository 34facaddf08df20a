#include "engine/net/local_link.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

namespace paddle::net {
namespace {

// Copies a tail, `begin` then `rest`, to the places that the receiver chose for it.
void fill(std::span<const std::span<std::byte>> places, ByteSpan begin, ByteSpan rest) {
  for (std::span<std::byte> place : places) {
    while (!place.empty()) {
      ByteSpan& from = begin.empty() ? rest : begin;
      const std::size_t count = std::min(place.size(), from.size());
      PADDLE_CHECK(count > 0);
      std::memcpy(place.data(), from.data(), count);
      place = place.subspan(count);
      from = from.subspan(count);
    }
  }
  PADDLE_CHECK(begin.empty() && rest.empty());
}

// Appends the pieces. A reserve() on the tail itself would copy its bytes one by one (bytes.h).
void join(Bytes& tail, std::span<const ByteSpan> pieces) {
  std::size_t bytes = tail.size();
  for (const ByteSpan piece : pieces) bytes += piece.size();
  Bytes joined;
  joined.reserve(bytes);
  append_bytes(joined, ByteSpan(tail));
  for (const ByteSpan piece : pieces) append_bytes(joined, piece);
  tail = std::move(joined);
}

class LocalLink final : public Link {
 public:
  LocalLink(std::shared_ptr<FrameHandler> handler, NodeId self)
      : handler_(std::move(handler)), self_(self) {}
  ~LocalLink() override {
    std::vector<Outgoing> ignored;
    handler_->on_disconnect(clock_.now(), kPeer, ignored);
  }

  Status send(Frame frame, std::span<const ByteSpan> pieces, TimePoint /*deadline*/) override {
    if (!open_) return Error{Errc::kUnreachable, "closed by peer"};
    frame.header.sender = self_;
    if (!pieces.empty()) join(frame.tail, pieces);
    std::vector<Outgoing> out = next_out();
    handler_->on_frame(clock_.now(), kPeer, std::move(frame), out);
    queue(std::move(out));
    return {};
  }

  Result<Frame> receive(TimePoint /*deadline*/, const TailPlace& place) override {
    if (replies_.empty()) {
      std::vector<Outgoing> out;
      handler_->on_tick(clock_.now(), out);
      queue(std::move(out));
    }
    if (replies_.empty()) {
      return Error{Errc::kUnreachable, open_ ? "no reply is queued" : "closed by peer"};
    }
    Outgoing reply = std::move(replies_.front());
    replies_.pop_front();
    const std::size_t tail_bytes = reply.frame.tail.size() + reply.view.size();
    std::vector<std::span<std::byte>> places;
    if (place) places = place(reply.frame.header, reply.frame.head, tail_bytes);
    if (places.empty()) {
      keep_views({&reply, 1});
    } else {
      const Bytes begin = std::exchange(reply.frame.tail, {});
      fill(places, begin, reply.view);
    }
    return std::move(reply.frame);
  }

  std::string peer() const override { return "local"; }

 private:
  static constexpr PeerId kPeer = 1;

  // Returns an empty vector for the handler's next call. Copies the views of queued replies first,
  // because that call may change the viewed memory.
  std::vector<Outgoing> next_out() {
    for (Outgoing& reply : replies_) keep_views({&reply, 1});
    return {};
  }
  void queue(std::vector<Outgoing>&& out) {
    for (Outgoing& reply : out) {
      PADDLE_CHECK(reply.to == kPeer);
      if (!open_) return;
      open_ = !reply.close_after;
      replies_.push_back(std::move(reply));
    }
  }

  SteadyClock clock_;
  std::shared_ptr<FrameHandler> handler_;
  NodeId self_;
  std::deque<Outgoing> replies_;
  bool open_ = true;
};

}  // namespace

std::unique_ptr<Link> make_local_link(std::shared_ptr<FrameHandler> handler, NodeId self) {
  return std::make_unique<LocalLink>(std::move(handler), self);
}

}  // namespace paddle::net
