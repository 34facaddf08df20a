#include "engine/net/local_link.h"

#include <deque>

namespace paddle::net {
namespace {

// The handler and the inboxes of its peers. Shared by their links.
class Exchange {
 public:
  Exchange(std::shared_ptr<FrameHandler> handler, std::size_t peers)
      : handler_(std::move(handler)), inboxes_(peers) {}

  Status send(PeerId from, Frame frame) {
    if (!inbox(from).open) return Error{Errc::kUnreachable, "closed by peer", ""};
    std::vector<Outgoing> out;
    handler_->on_frame(clock_.now(), from, std::move(frame), out);
    deliver(std::move(out));
    return {};
  }

  Result<Frame> receive(PeerId to) {
    if (inbox(to).frames.empty()) {
      std::vector<Outgoing> out;
      handler_->on_tick(clock_.now(), out);
      deliver(std::move(out));
    }
    Inbox& mine = inbox(to);
    if (mine.frames.empty()) {
      return Error{Errc::kUnreachable, mine.open ? "no reply is queued" : "closed by peer", ""};
    }
    Frame frame = std::move(mine.frames.front());
    mine.frames.pop_front();
    return frame;
  }

  void disconnect(PeerId peer) {
    inbox(peer) = Inbox{{}, false};
    std::vector<Outgoing> out;
    handler_->on_disconnect(clock_.now(), peer, out);
    deliver(std::move(out));
  }

 private:
  struct Inbox {
    std::deque<Frame> frames;
    bool open = true;
  };

  Inbox& inbox(PeerId peer) {
    PADDLE_CHECK(peer >= 1 && peer <= inboxes_.size());
    return inboxes_[peer - 1];
  }

  void deliver(std::vector<Outgoing>&& out) {
    keep_views(out);
    for (Outgoing& outgoing : out) {
      Inbox& to = inbox(outgoing.to);
      if (!to.open) continue;
      to.frames.push_back(std::move(outgoing.frame));
      if (outgoing.close_after) to.open = false;
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
    for (const ByteSpan piece : pieces) append_bytes(frame.tail, piece);
    return exchange_->send(id_, std::move(frame));
  }
  Result<Frame> receive(TimePoint /*deadline*/, const TailPlace& /*place*/) override {
    return exchange_->receive(id_);
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
