#include "remote/agent/store/peer_probe.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace paddle::agent {

using namespace wire::agent;  // NOLINT: this file is about the messages

namespace {

constexpr std::string_view kProbeService = "probe";
constexpr Duration kProbeTimeMax = std::chrono::minutes(10);
constexpr Duration kTransferDeadline = std::chrono::seconds(10);  // for one proven caller
constexpr Duration kSendTime = std::chrono::seconds(1);
constexpr std::uint64_t kSendBytes = 16U << 20U;
constexpr std::size_t kChunkBytes = 256U << 10U;
constexpr int kRoundTrips = 8;

TimePoint now() {
  return std::chrono::steady_clock::now();
}

Status answer(int fd) {
  const TimePoint deadline = now() + kTransferDeadline;
  Bytes buffer(kChunkBytes);
  for (int i = 0; i < kRoundTrips; ++i) {
    const std::span<std::byte> one(buffer.data(), 1);
    PADDLE_TRY_STATUS(read_exact(fd, one, deadline));
    PADDLE_TRY_STATUS(write_all(fd, one, deadline));
  }
  std::uint64_t bytes = 0;
  while (bytes <= kSendBytes && now() < deadline) {
    pollfd item{fd, POLLIN, 0};
    if (::poll(&item, 1, milliseconds_until(deadline)) <= 0) continue;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno != EAGAIN && errno != EINTR) return system_error(Errc::kFailed, "read");
    if (got > 0) bytes += static_cast<std::uint64_t>(got);
    if (got == 0) return write_all(fd, std::as_bytes(std::span(&bytes, 1)), deadline);
  }
  return {};
}

Status measure(int fd, ProbeReply& reply) {
  const TimePoint deadline = now() + kTransferDeadline;
  Duration round_trip = Duration::max();
  for (int i = 0; i < kRoundTrips; ++i) {
    std::byte one{};
    const TimePoint asked = now();
    PADDLE_TRY_STATUS(write_all(fd, std::span(&one, 1), deadline));
    PADDLE_TRY_STATUS(read_exact(fd, std::span(&one, 1), deadline));
    round_trip = std::min(round_trip, now() - asked);
  }
  reply.set_round_trip_ns(static_cast<std::uint64_t>(round_trip.count()));
  const Bytes zeros(kChunkBytes, std::byte{0});
  const TimePoint begin = now();
  std::uint64_t sent = 0;
  for (; sent < kSendBytes && now() < begin + kSendTime; sent += zeros.size()) {
    PADDLE_TRY_STATUS(write_all(fd, zeros, deadline));
  }
  ::shutdown(fd, SHUT_WR);
  std::uint64_t arrived = 0;
  PADDLE_TRY_STATUS(read_exact(fd, std::as_writable_bytes(std::span(&arrived, 1)), deadline));
  if (arrived != sent) return Error{Errc::kData, "not all bytes arrived", ""};
  reply.set_bytes(arrived);
  reply.set_transfer_ns(static_cast<std::uint64_t>((now() - begin).count()));
  return {};
}

}  // namespace

Status answer_probes(PeerListener& listener, const ProbeTarget& at, ByteSpan token) {
  listener.stop();
  PADDLE_TRY(UniqueFd socket, listen_for_peers(at));
  // An error closes the connection, which the caller notices.
  const auto serve = [](const PeerConnection& caller, int) { (void)answer(caller.fd.get()); };
  return listener.start(std::move(socket), token,
                        {kProbeService, kProbeTimeMax, kTransferDeadline, -1, serve});
}

Result<ProbeReply> probe(const ProbeTarget& target, ByteSpan caller_key) {
  PADDLE_TRY(const PeerCall call, call_peer(target, caller_key, kProbeService));
  ProbeReply reply;
  reply.set_outcome(call.outcome);
  reply.set_detail(call.detail);
  if (!call.connection) return reply;
  if (const Status measured = measure(call.connection->fd.get(), reply); !measured) {
    reply.set_outcome(PROBE_STALLED);
    reply.set_detail(measured.error().message);
  }
  return reply;
}

}  // namespace paddle::agent
