#include "remote/client/exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "proto/agent_channel.h"

namespace paddle::remote {
namespace {

TimePoint after(Duration duration) {
  return TimePoint(std::chrono::steady_clock::now()) + duration;
}

// Accepts only known codes: paddlectl exits with them, and a node must make it exit neither with 0
// nor as after Ctrl-C.
Errc known_code(int code) {
  const Errc known = errc_of(static_cast<std::uint32_t>(code));
  return known == Errc::kInterrupted ? Errc::kFailed : known;
}

}  // namespace

Status check_request(const std::string& what, const google::protobuf::MessageLite& request) {
  const std::size_t bytes = request.ByteSizeLong();
  if (bytes <= kFrameHeadBytesMax) return {};
  return Error{Errc::kUsage,
               fmt::format("{} have {}, and the limit is {} KiB", what, human_bytes(bytes),
                           (kFrameHeadBytesMax + 1) >> 10U),
               "pass fewer or shorter ones, or put them into a file that the program reads"};
}

void make_printable(std::initializer_list<std::string*> texts) {
  for (std::string* const text : texts) *text = escape_control(*text);
}

void make_printable(google::protobuf::RepeatedPtrField<std::string>& texts) {
  for (std::string& text : texts) text = escape_control(text);
}

Exchange::Exchange(std::string node, Channel channel, Duration ping_every)
    : node_(std::move(node)),
      channel_(std::move(channel)),
      pings_([this, ping_every](const std::stop_token& stop) { ping(stop, ping_every); }) {}

void Exchange::ping(const std::stop_token& stop, Duration every) {
  FrameHeader header;
  header.type = wire::agent::AGENT_PING;
  header.sender = {Role::kController, 0};
  const FrameHeaderBytes frame = encode_header(header, ByteSpan(), ByteSpan());
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  while (!ended.wait_for(lock, stop, every, [&] { return stop.stop_requested(); })) {
    // If a frame is being written, that frame replaces the ping. A socket accepts so few bytes
    // whole or not at all; the next request detects a lost connection.
    const std::unique_lock sending(sending_, std::try_to_lock);
    if (sending) ::send(channel_.fd.get(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

Error Exchange::lose(Error error) {
  broken_ = named(with_stderr(std::move(error), channel_).with("lost the agent"));
  return *broken_;
}

Error Exchange::give_up(Error error) {
  broken_ = named(std::move(error));
  return *broken_;
}

Status Exchange::send(wire::agent::AgentKind kind, const google::protobuf::MessageLite& head,
                      ByteSpan tail, Duration deadline) {
  if (broken_) return *broken_;
  if (Status fits = check_request("the parts of the request", head); !fits)
    return named(std::move(fits).error());
  FrameHeader header;
  header.type = static_cast<std::uint8_t>(kind);
  header.sender = {Role::kController, 0};
  header.sequence = ++sequence_;
  const std::lock_guard lock(sending_);
  auto sent = write_frame(channel_.fd.get(), header, as_bytes(head.SerializeAsString()), tail,
                          after(deadline));
  if (!sent) return lose(std::move(sent).error());
  return {};
}

bool Exchange::wait(Duration patience) const {
  if (broken_) return true;
  pollfd item{channel_.fd.get(), POLLIN, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(patience).count();
  // A signal such as that of Ctrl-C also ends the wait: it is no reply, and the caller checks for
  // it.
  return ::poll(&item, 1, static_cast<int>(ms)) > 0;
}

Result<Frame> Exchange::receive(wire::agent::AgentKind kind, Duration deadline) {
  if (broken_) return *broken_;
  auto frame = read_frame(channel_.fd.get(), kAgentPayloadBytesMax, after(deadline));
  if (!frame) return lose(std::move(frame).error());
  if (frame->header.type == kind) return frame;
  wire::agent::ErrorReply reply;
  if (frame->header.type == wire::agent::AGENT_ERROR && reply.ParseFromString(frame->head)) {
    return named(Error{known_code(reply.code()), escape_control(reply.message()),
                       escape_control(reply.hint())});
  }
  return lose(Error{Errc::kData, "unexpected reply from the agent", ""});
}

Status Exchange::check_list(std::size_t size, std::size_t max, bool is_endless) {
  if (size <= max && !is_endless) return {};
  return lose(Error{Errc::kData, "it sent a list that is too long", ""});
}

Status Exchange::order(wire::agent::AgentKind kind, const google::protobuf::MessageLite& request,
                       ByteSpan tail, Duration deadline) {
  PADDLE_TRY_STATUS(send(kind, request, tail, deadline));
  const auto reply = receive(kind, deadline);
  if (!reply) return reply.error();
  return {};
}

}  // namespace paddle::remote
