#include "remote/agent/store/store_peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <string_view>

#include "remote/agent/node/host.h"
#include "remote/agent/store/peer_connection.h"

namespace paddle::agent {

using namespace wire::agent;  // NOLINT: this file is about the messages

namespace {

constexpr std::string_view kStoreService = "store";
constexpr Duration kShareTimeMax = std::chrono::hours(24);  // the longest shared push
constexpr Duration kOpenDeadline = std::chrono::seconds(5);
constexpr Duration kPieceDeadline = std::chrono::seconds(15);  // for the longest piece, at 35 KB/s
constexpr Duration kPullDeadline = std::chrono::seconds(60);   // for all pieces of a request
constexpr Duration kConnectionMax = kOpenDeadline + kPullDeadline;
constexpr std::size_t kCountBytes = 4;
constexpr std::size_t kRequestBytes = 32 + 4 + 8 + 4;  // id, mode, offset, size
constexpr std::byte kHere{1};
constexpr std::byte kNotHere{0};

TimePoint after(Duration duration) {
  return TimePoint(std::chrono::steady_clock::now()) + duration;
}

Bytes encode(const std::vector<Piece>& pieces) {
  Bytes text(kCountBytes + pieces.size() * kRequestBytes);
  store_le(text.data(), static_cast<std::uint32_t>(pieces.size()));
  std::byte* to = text.data() + kCountBytes;
  for (const Piece& piece : pieces) {
    to = std::copy(piece.key.id.begin(), piece.key.id.end(), to);
    store_le(to, piece.key.mode);
    store_le(to + 4, piece.offset);
    store_le(to + 12, piece.size);
    to += 16;
  }
  return text;
}

Result<std::vector<Piece>> read_request(PeerStream& stream) {
  const TimePoint deadline = after(kOpenDeadline);
  std::array<std::byte, kCountBytes> count;
  PADDLE_TRY_STATUS(stream.read(count, deadline));
  const auto size = load_le<std::uint32_t>(count.data());
  if (size > kPiecesMax) return Error{Errc::kData, "the request has too many pieces", ""};
  std::vector<Piece> pieces(size);
  for (Piece& piece : pieces) {
    std::array<std::byte, kRequestBytes> text;
    PADDLE_TRY_STATUS(stream.read(text, deadline));
    std::copy_n(text.begin(), piece.key.id.size(), piece.key.id.begin());
    piece.key.mode = load_le<std::uint32_t>(text.data() + 32);
    piece.offset = load_le<std::uint64_t>(text.data() + 36);
    piece.size = load_le<std::uint32_t>(text.data() + 44);
    if (piece.size > kPieceBytesMax || piece.offset > kPushFileBytesMax)
      return Error{Errc::kData, "a piece is too long", ""};
  }
  return pieces;
}

// Opens the object or its partial file. A partial file may become the object between two of these
// attempts.
UniqueFd open_object(int root, const ObjectKey& key) {
  for (const char* const folder : {"store/objects/", "store/partial/", "store/objects/"}) {
    UniqueFd fd(::openat(root, (folder + key.name()).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (fd) return fd;
  }
  return UniqueFd();
}

Status give(const PeerConnection& caller, int root, bool sealed) {
  PeerStream stream(caller, PeerStream::Side::kListener, sealed);
  PADDLE_TRY(const std::vector<Piece> pieces, read_request(stream));
  UniqueFd fd;
  ObjectKey open;
  Bytes buffer(1 + kPieceBytesMax);
  for (const Piece& piece : pieces) {
    if (!fd || open.id != piece.key.id || open.mode != piece.key.mode) {
      fd = open_object(root, piece.key);
      open = piece.key;
    }
    const auto answer = std::span(buffer).first(1 + piece.size);
    answer[0] = kHere;
    if (!fd || !read_at(fd.get(), answer.subspan(1), piece.offset))
      return stream.write(std::span(&kNotHere, 1), after(kPieceDeadline));
    PADDLE_TRY_STATUS(stream.write(answer, after(kPieceDeadline)));
  }
  return {};
}

// Receives the pieces. A bad piece also ends the pull: the rest is pulled from another node.
Status receive(PeerStream& stream, const std::vector<Piece>& pieces,
               const std::function<Status(std::size_t, ByteSpan)>& add, PullReply& reply) {
  PADDLE_TRY_STATUS(stream.write(encode(pieces), after(kOpenDeadline)));
  Bytes buffer(kPieceBytesMax);
  const TimePoint end = after(kPullDeadline);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    std::byte here{};
    const TimePoint deadline = std::min(end, after(kPieceDeadline));
    PADDLE_TRY_STATUS(stream.read(std::span(&here, 1), deadline));
    if (here != kHere) return Error{Errc::kData, "the node no longer has this content", ""};
    const auto bytes = std::span(buffer).first(pieces[i].size);
    PADDLE_TRY_STATUS(stream.read(bytes, deadline));
    PADDLE_TRY_STATUS(add(i, bytes));
    reply.set_arrived(static_cast<std::uint32_t>(i + 1));
  }
  return {};
}

}  // namespace

Result<ServeReply> serve_store(PeerListener& listener, const Root& root,
                               const ServeRequest& request, ByteSpan token) {
  listener.stop();
  ProbeTarget at;
  at.set_address(request.address().empty() ? own_address() : request.address());
  at.set_port(request.port());
  auto socket = listen_for_peers(at);
  if (!socket && socket.error().code == Errc::kResource && request.port() != 0) {
    at.set_port(0);
    socket = listen_for_peers(at);
  }
  if (!socket) return std::move(socket).error();
  IpEndpoint name;
  name.size = sizeof name.storage;
  if (::getsockname(socket->get(), name.data(), &name.size) != 0)
    return system_error(Errc::kResource, "getsockname");
  ServeReply reply;
  reply.set_address(at.address());
  reply.set_port(name.port());
  const bool sealed = request.seal_always() || !is_loopback(at.address());
  reply.set_sealed(sealed);
  const auto serve = [sealed](const PeerConnection& caller, int folder) {
    (void)give(caller, folder, sealed);  // the caller notices a connection that breaks
  };
  PADDLE_TRY_STATUS(
      listener.start(*std::move(socket), token,
                     {kStoreService, kShareTimeMax, kConnectionMax, root.fd.get(), serve}));
  return reply;
}

Result<PullReply> pull_pieces(const PullRequest& request, ByteSpan caller_key,
                              const std::vector<Piece>& pieces,
                              const std::function<Status(std::size_t, ByteSpan)>& add) {
  std::uint64_t bytes = 0;
  for (const Piece& piece : pieces) {
    bytes += piece.size;
    if (piece.size > kPieceBytesMax) return Error{Errc::kData, "a piece is too long", ""};
  }
  if (pieces.size() > kPiecesMax || bytes > kPiecesBytesMax)
    return Error{Errc::kData, "the request has too many pieces", ""};
  ProbeTarget target;
  target.set_address(request.from().address());
  target.set_port(request.from().port());
  target.set_caller(request.caller());
  PADDLE_TRY(const PeerCall call, call_peer(target, caller_key, kStoreService));
  PullReply reply;
  reply.set_outcome(call.outcome);
  reply.set_detail(call.detail);
  if (!call.connection) return reply;
  PeerStream stream(*call.connection, PeerStream::Side::kCaller, request.from().sealed());
  const Status received = receive(stream, pieces, add, reply);
  if (received) return reply;
  reply.set_outcome(PROBE_STALLED);
  reply.set_detail(received.error().message);
  return reply;
}

}  // namespace paddle::agent
