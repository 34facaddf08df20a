// The agent's end of one controller's channel: requests are answered in order, by a table of kinds.
#pragma once

#include <functional>

#include "proto/agent_channel.h"
#include "remote/agent/peer/peer.h"
#include "remote/agent/process/claims.h"
#include "remote/agent/root/node_copy.h"
#include "remote/agent/root/root.h"
#include "remote/agent/store/incoming_push.h"

namespace paddle::agent {

class Session {
 public:
  // Sends one reply frame; fails only when the controller has gone.
  using Send = std::function<Status(wire::agent::AgentKind kind, std::uint16_t flags,
                                    const google::protobuf::MessageLite& head, ByteSpan tail)>;

  // A running command is ended by the next of `requests`.
  Session(const Root& root, RequestStream& requests, Send send)
      : root_(root),
        requests_(requests),
        send_(std::move(send)),
        incoming_(root),
        copies_(root),
        claims_(root) {}

  // Answers a request, with an error reply if need be. Fails only when the channel is lost.
  Status on_frame(const Frame& request);
  // True after a teardown: there is nothing left to serve.
  bool finished() const { return finished_; }

 private:
  struct Request {
    wire::agent::AgentKind kind;
    Status (*answer)(Session& session, const Frame& request);
  };
  static const Request kRequests[];
  template <class Message, auto run>
  static Status answer(Session& session, const Frame& request);
  template <auto member>
  static Status pass(Session& session, const Frame& request);

  Status handle(const Frame& request);
  Status handle_within_memory(const Frame& request);
  Status manifest(const Frame& request);
  Status chunks(const Frame& request);
  Status list(const Frame& request);
  Status get(const Frame& request);
  Status copy(const Frame& request);
  Status keep_keys(const std::string& job, const std::string& process, ByteSpan keys);
  // At once, on behalf of whoever revoked this session's claim of the job.
  void end(const std::string& job, const std::vector<std::string>& names) const;
  Status processes(const Frame& request);
  Status log(const Frame& request);
  Status run(const Frame& request);
  Status send_head(wire::agent::AgentKind kind, const google::protobuf::MessageLite& head);
  // send_, with a failure noted as the channel's, not the request's.
  Status send(wire::agent::AgentKind kind, std::uint16_t flags,
              const google::protobuf::MessageLite& head, ByteSpan tail);

  const Root& root_;
  RequestStream& requests_;
  Send send_;
  IncomingPush incoming_;
  CopyFolders copies_;
  wire::agent::CopyTree copied_;  // of a copy whose request comes in parts
  Claims claims_;
  PeerListener probe_listener_;
  PeerListener store_listener_;
  bool channel_lost_ = false;
  bool finished_ = false;
};

}  // namespace paddle::agent
