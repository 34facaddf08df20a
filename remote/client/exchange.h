// Requests and replies on an agent's channel. Every error names the node; after a channel error
// every call fails with that error.
#pragma once

#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "proto/agent.pb.h"
#include "proto/agent_channel.h"
#include "proto/frame.h"
#include "remote/launcher/launcher.h"

namespace paddle::remote {

// For requests that hash or walk a large folder on a slow disk.
constexpr Duration kDiskDeadline = std::chrono::minutes(10);

// kUsage: the request is larger than an agent takes. `what` is the plural noun for its content.
Status check_request(const std::string& what, const google::protobuf::MessageLite& request);

// Make texts of a node's answer printable, in place.
void make_printable(std::initializer_list<std::string*> texts);
void make_printable(google::protobuf::RepeatedPtrField<std::string>& texts);

class Exchange {
 public:
  // `ping_every`: the interval at which a thread sends AGENT_PING, which shows the agent that this
  // program is still running.
  Exchange(std::string node, Channel channel, Duration ping_every = kAgentPingEvery);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Error named(Error error) const { return std::move(error).with("node " + node_); }
  bool broken() const { return broken_.has_value(); }

  Status send(wire::agent::AgentKind kind, const google::protobuf::MessageLite& head, ByteSpan tail,
              Duration deadline);
  // True when a reply begins within `patience`, or the channel is lost. A signal may end it early.
  bool wait(Duration patience) const;
  // Returns a reply of this kind, or the error of the agent's error reply.
  Result<Frame> receive(wire::agent::AgentKind kind, Duration deadline);

  template <class Message>
  Result<Message> parse(const Frame& frame) {
    Message message;
    if (message.ParseFromString(frame.head)) return message;
    return lose(Error{Errc::kData, "malformed reply from the agent", ""});
  }
  template <class Reply>
  Result<Reply> call(wire::agent::AgentKind kind, const google::protobuf::MessageLite& request,
                     Duration deadline) {
    PADDLE_TRY_STATUS(send(kind, request, {}, deadline));
    PADDLE_TRY(const Frame frame, receive(kind, deadline));
    return parse<Reply>(frame);
  }
  // Sends a request whose reply is empty, and receives the reply.
  Status order(wire::agent::AgentKind kind, const google::protobuf::MessageLite& request,
               ByteSpan tail, Duration deadline);

  // Marks the channel as lost when a list in parts has over `max` entries, or when `is_endless` is
  // set, because a part before the last one was empty.
  Status check_list(std::size_t size, std::size_t max, bool is_endless);
  // Marks the channel as lost and returns the reason, with the agent's last line on stderr.
  Error lose(Error error);
  // Marks the channel as given up by this program, which does not want the rest of an answer.
  Error give_up(Error error);

 private:
  void ping(const std::stop_token& stop, Duration every);

  std::string node_;
  Channel channel_;
  std::optional<Error> broken_;
  std::uint64_t sequence_ = 0;
  std::mutex sending_;  // held while a frame is written
  std::jthread pings_;  // last, so that it ends before the channel
};

}  // namespace paddle::remote
