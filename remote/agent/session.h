// One controller's requests, answered one after the other.
#pragma once

#include <functional>

#include "proto/frame_stream.h"
#include "remote/agent/peer/peer.h"
#include "remote/agent/process/claims.h"
#include "remote/agent/root/copy_folders.h"
#include "remote/agent/root/root.h"
#include "remote/agent/store/incoming_push.h"

namespace paddle::agent {

class Session {
 public:
  // Sends one reply frame; an error means that the controller has gone.
  using Send = std::function<Status(wire::agent::AgentKind kind, std::uint16_t flags,
                                    const google::protobuf::MessageLite& head, ByteSpan tail)>;

  // A request that arrives at `input` while a command runs ends it.
  Session(const Root& root, int input, Send send)
      : root_(root),
        input_(input),
        send_(std::move(send)),
        incoming_(root),
        copies_(root),
        claims_(root) {}

  // Handles a request and sends its replies. An error means that the channel is of no use any more.
  Status on_frame(const Frame& request);
  // After a teardown: nothing is left to serve.
  bool finished() const { return finished_; }

 private:
  Status handle(wire::agent::AgentKind kind, const Frame& request);
  Status manifest(const Frame& request);
  Status chunks(const Frame& request);
  Status put(const Frame& request);
  Status remove(const Frame& request);
  Status list(const Frame& request);
  Status get(const Frame& request);
  Status claim(const Frame& request);
  Status secret(const Frame& request);
  Status processes(const Frame& request);
  Status log(const Frame& request);
  Status run(const Frame& request);
  Status send_head(wire::agent::AgentKind kind, const google::protobuf::MessageLite& head);
  Status send_empty(wire::agent::AgentKind kind);
  // Like send_, but remembers that a failure is the channel's and not the request's.
  Status send(wire::agent::AgentKind kind, std::uint16_t flags,
              const google::protobuf::MessageLite& head, ByteSpan tail);

  const Root& root_;
  int input_;
  Send send_;
  IncomingPush incoming_;
  CopyFolders copies_;
  Claims claims_;
  PeerListener probe_listener_;
  PeerListener store_listener_;
  bool channel_lost_ = false;
  bool finished_ = false;
};

}  // namespace paddle::agent
