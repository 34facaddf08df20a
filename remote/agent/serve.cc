#include "remote/agent/serve.h"

#include <cstring>

#include "proto/agent.pb.h"
#include "proto/agent_channel.h"
#include "remote/agent/session.h"

namespace paddle::agent {

Status serve(const Root& root, int input, int output, Duration silence_max) {
  std::uint64_t sequence = 0;
  const auto send = [&](wire::agent::AgentKind kind, std::uint16_t flags,
                        const google::protobuf::MessageLite& head, ByteSpan tail) {
    FrameHeader header;
    header.type = static_cast<std::uint8_t>(kind);
    header.flags = flags;
    header.sender = {Role::kAgent, 0};
    header.sequence = sequence;
    return write_frame(output, header, as_bytes(head.SerializeAsString()), tail,
                       TimePoint(std::chrono::steady_clock::now()) + kFrameDeadline);
  };
  RequestStream requests(input, silence_max);
  Session session(root, requests, send);
  while (!session.finished()) {
    auto request = requests.next();
    if (!request && request.error().code == Errc::kUnreachable) return {};  // the controller left
    if (!request) {
      wire::agent::ErrorReply reply;
      reply.set_code(static_cast<int>(request.error().code));
      reply.set_message(request.error().message);
      [[maybe_unused]] const auto told = send(wire::agent::AGENT_ERROR, 0, reply, {});
      return request.error();
    }
    sequence = request->header.sequence;
    const Status done = session.on_frame(*request);
    if (request->header.type == wire::agent::AGENT_KEYS)
      ::explicit_bzero(request->tail.data(), request->tail.size());
    PADDLE_TRY_STATUS(done);
  }
  return {};
}

}  // namespace paddle::agent
