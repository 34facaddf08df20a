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

// The handler and its peers' inboxes, owned by their links together.
class Exchange {
 public:
  Exchange(std::shared_ptr<FrameHandler> handler, std::size_t peers)
      : handler_(std::move(handler)), inboxes_(peers) {}

  Status send(PeerId from, Frame frame, std::span<const ByteSpan> pieces) {
    if (!inbox(from).open) return Error{Errc::kUnreachable, "closed by peer", ""};
    std::size_t bytes = frame.tail.size();
    for (const ByteSpan piece : pieces) bytes += piece.size();
    frame.tail.reserve(bytes);
    for (const ByteSpan piece : pieces) append_bytes(frame.tail, piece);
    std::vector<Outgoing> out = next_out();
    handler_->on_frame(clock_.now(), from, std::move(frame), out);
    deliver(std::move(out));
    return {};
  }

  Result<Frame> receive(PeerId to, const TailPlace& place) {
    if (inbox(to).replies.empty()) {
      std::vector<Outgoing> out = next_out();
      handler_->on_tick(clock_.now(), out);
      deliver(std::move(out));
    }
    Inbox& mine = inbox(to);
    if (mine.replies.empty()) {
      return Error{Errc::kUnreachable, mine.open ? "no reply is queued" : "closed by peer", ""};
    }
    Outgoing reply = std::move(mine.replies.front());
    mine.replies.pop_front();
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

  void disconnect(PeerId peer) {
    inbox(peer) = Inbox{{}, false};
    std::vector<Outgoing> out = next_out();
    handler_->on_disconnect(clock_.now(), peer, out);
    deliver(std::move(out));
  }

 private:
  struct Inbox {
    std::deque<Outgoing> replies;
    bool open = true;
  };

  Inbox& inbox(PeerId peer) {
    PADDLE_CHECK(peer >= 1 && peer <= inboxes_.size());
    return inboxes_[peer - 1];
  }

  // Empty output for the handler's next call, which may change memory that queued replies view.
  std::vector<Outgoing> next_out() {
    for (Inbox& one : inboxes_) {
      for (Outgoing& reply : one.replies) keep_views({&reply, 1});
    }
    return {};
  }

  void deliver(std::vector<Outgoing>&& out) {
    for (Outgoing& reply : out) {
      Inbox& to = inbox(reply.to);
      if (!to.open) continue;
      if (reply.close_after) to.open = false;
      to.replies.push_back(std::move(reply));
    }
  }

  SteadyClock clock_;
  std::shared_ptr<FrameHandler> handler_;
  std::vector<Inbox> inboxes_;
};

class LocalLink final : public Link {
 public:
  LocalLink(std::shared_ptr<Exchange> exchange, PeerId id, NodeId self)
      : exchange_(std::move(exchange)), id_(id), self_(self) {}
  ~LocalLink() override { exchange_->disconnect(id_); }

  Status send(Frame frame, std::span<const ByteSpan> pieces, TimePoint /*deadline*/) override {
    frame.header.sender = self_;
    return exchange_->send(id_, std::move(frame), pieces);
  }
  Result<Frame> receive(TimePoint /*deadline*/, const TailPlace& place) override {
    return exchange_->receive(id_, place);
  }
  std::string peer() const override { return "local"; }

 private:
  std::shared_ptr<Exchange> exchange_;
  PeerId id_;
  NodeId self_;
};

}  // namespace

std::vector<std::unique_ptr<Link>> make_local_links(std::shared_ptr<FrameHandler> handler,
                                                    std::span<const NodeId> selves) {
  const auto exchange = std::make_shared<Exchange>(std::move(handler), selves.size());
  std::vector<std::unique_ptr<Link>> links;
  for (std::size_t i = 0; i < selves.size(); ++i) {
    links.push_back(std::make_unique<LocalLink>(exchange, i + 1, selves[i]));
  }
  return links;
}

std::unique_ptr<Link> make_local_link(std::shared_ptr<FrameHandler> handler, NodeId self) {
  return std::move(make_local_links(std::move(handler), {&self, 1}).front());
}

}  // namespace paddle::net
