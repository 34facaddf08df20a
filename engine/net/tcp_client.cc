#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <thread>

#include "base/rng.h"
#include "engine/net/frame_io.h"
#include "engine/net/ring_stream.h"
#include "engine/net/session.h"
#include "engine/net/socket.h"
#include "engine/net/tcp.h"
#include "engine/net/tls_stream.h"

namespace paddle::net {
namespace {

constexpr Duration kBackoffMin = std::chrono::milliseconds(50);
constexpr Duration kBackoffMax = std::chrono::seconds(1);

TimePoint now() {
  return SteadyClock().now();
}

class TcpLink final : public Link {
 public:
  TcpLink(UniqueFd fd, std::string peer, const ClientOptions& options)
      : fd_(std::move(fd)),
        stream_(make_socket_stream(fd_.get())),
        is_sealed_(is_sealed(options.transport, fd_.get())),
        reader_(kUnprovenBufferBytes, kUnprovenPayloadBytesMax),
        peer_(std::move(peer)),
        self_(options.self),
        incarnation_(options.incarnation),
        server_(options.server),
        job_tag_(options.job_tag) {}

  Status handshake(const Secret& key, TimePoint deadline) {
    if (is_sealed_) stream_ = make_tls_client(std::move(stream_), self_, server_, job_tag_, key);
    PADDLE_TRY(const Nonce nonce, random_nonce());
    ClientSession session({key, self_, incarnation_, server_, job_tag_}, nonce);
    PADDLE_TRY_STATUS(send(session.hello(), {}, deadline));
    while (!session.established()) {
      PADDLE_TRY(const Frame frame, receive(deadline, {}));
      PADDLE_TRY(std::optional<Frame> answer, session.on_frame(frame));
      if (answer) PADDLE_TRY_STATUS(send(*std::move(answer), {}, deadline));
    }
    reader_.set_limits(kReadBufferBytes, kFramePayloadBytesMax);
    return {};
  }

  // Offers shared memory to a server on this host; without it, the link stays on TCP.
  Status share(TimePoint deadline) {
    if (is_sealed_ || !is_same_host(fd_.get())) return {};
    auto segment = SharedSegment::create();
    if (!segment) return {};
    Frame offer;
    offer.header.type = kShare;
    offer.tail = segment->offer();
    PADDLE_TRY_STATUS(send(std::move(offer), {}, deadline));
    PADDLE_TRY(const Frame answer, receive(deadline, {}));
    if (answer.header.type != kShared || answer.tail.size() != 1 || !reader_.is_idle()) {
      return Error{Errc::kAuth, "unexpected answer to an offer of shared memory"};
    }
    if (answer.tail[0] == std::byte{0}) return {};
    segment->close_file();
    stream_ = std::make_unique<RingStream>(*std::move(segment), Side::kClient, fd_.get());
    return {};
  }

  // Writes a frame without copying its tail, with the session's identity in its header.
  Status send(Frame frame, std::span<const ByteSpan> pieces, TimePoint deadline) override {
    if (broken_) return *broken_;
    frame.header.sender = self_;
    frame.header.incarnation = incarnation_;
    frame.header.job_tag = job_tag_;
    parts_.assign({ByteSpan(), as_bytes(frame.head), frame.tail});
    parts_.insert(parts_.end(), pieces.begin(), pieces.end());
    const auto header = encode_header(frame.header, parts_[1], std::span(parts_).subspan(2));
    parts_[0] = header;
    for (std::size_t begin = 0;;) {
      while (begin < parts_.size() && parts_[begin].empty()) ++begin;
      if (begin == parts_.size()) return {};
      const auto left = std::span(parts_).subspan(begin);
      auto written = stream_->write_some(left.first(std::min(left.size(), kGatherPartsMax)));
      if (!written) return fail(std::move(written).error());
      // A part of the frame may be sent already, so a missed deadline ends the connection.
      if (*written == 0) {
        if (auto ready = stream_->wait(Stream::Direction::kWrite, deadline); !ready) {
          return fail(std::move(ready).error());
        }
      }
      std::size_t count = *written;
      for (std::size_t i = 0; i < left.size() && count > 0; ++i) {
        const std::size_t part = std::min(count, left[i].size());
        left[i] = left[i].subspan(part);
        count -= part;
      }
    }
  }

  Result<Frame> receive(TimePoint deadline, const TailPlace& place) override {
    if (broken_) return *broken_;
    for (;;) {
      auto frame = reader_.next(place);
      if (!frame) return fail(std::move(frame).error()).error();
      if (*frame) return std::move(**frame);
      auto count = stream_->read_some(reader_.space());
      if (!count) return fail(std::move(count).error()).error();
      if (*count > 0) {
        reader_.commit(*count);
      } else {
        auto ready = stream_->wait(Stream::Direction::kRead, deadline);
        if (ready) continue;
        // After an error the caller may free the memory of a placed tail, so the link must not
        // write to it again.
        if (reader_.is_placing()) return fail(std::move(ready).error()).error();
        return std::move(ready).error();
      }
    }
  }

  std::string peer() const override { return peer_; }
  bool is_closed() const override {
    pollfd socket{fd_.get(), POLLRDHUP, 0};
    return ::poll(&socket, 1, 0) > 0;
  }
  void interrupt(const Error& why) override {
    {
      const std::scoped_lock lock(interruption_mutex_);
      if (!interruption_) interruption_ = why;
    }
    ::shutdown(fd_.get(), SHUT_RDWR);  // wakes the thread blocked on the socket
  }

 private:
  // Errors are final, except a deadline that passed in receive().
  Status fail(Error error) {
    const std::scoped_lock lock(interruption_mutex_);
    broken_ = interruption_ ? *interruption_ : std::move(error);
    return *broken_;
  }

  UniqueFd fd_;
  std::unique_ptr<Stream> stream_;
  bool is_sealed_;
  FrameReader reader_;
  std::vector<ByteSpan> parts_;  // parts of the frame being written
  std::string peer_;
  NodeId self_;
  std::uint32_t incarnation_;
  NodeId server_;
  std::uint64_t job_tag_;
  std::optional<Error> broken_;
  std::mutex interruption_mutex_;
  std::optional<Error> interruption_;
};

// If nothing listens on the called port, the kernel may choose that port as our local port, and the
// socket connects to itself.
bool is_self_connected(int fd, const asio::ip::tcp::endpoint& remote) {
  asio::ip::tcp::endpoint local;
  auto size = static_cast<socklen_t>(local.capacity());
  return ::getsockname(fd, local.data(), &size) == 0 && local == remote;
}

Result<UniqueFd> open_socket(const asio::ip::tcp::endpoint& endpoint, TimePoint deadline) {
  UniqueFd fd(
      ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(Errc::kResource, "socket");
  PADDLE_TRY_STATUS(set_socket_options(fd.get()));
  if (::connect(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 &&
      errno != EINPROGRESS) {
    return system_error(Errc::kUnreachable, "connect");
  }
  PADDLE_TRY_STATUS(wait_ready(fd.get(), POLLOUT, deadline));
  int code = 0;
  socklen_t size = sizeof code;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size) != 0) code = errno;
  if (code != 0) {
    errno = code;
    return system_error(Errc::kUnreachable, "connect");
  }
  if (is_self_connected(fd.get(), endpoint)) {
    return Error{Errc::kUnreachable, "connect: Connection refused"};
  }
  return fd;
}

Result<std::unique_ptr<Link>> connect_once(const ClientOptions& options,
                                           const asio::ip::tcp::endpoint& endpoint,
                                           TimePoint deadline) {
  PADDLE_TRY(UniqueFd fd, open_socket(endpoint, deadline));
  PADDLE_TRY(const Secret key, options.keys.pair(options.self, options.server));
  auto link = std::make_unique<TcpLink>(std::move(fd), endpoint_text(endpoint), options);
  const TimePoint until = std::min(deadline, now() + kHandshakeDeadline);
  PADDLE_TRY_STATUS(link->handshake(key, until));
  if (options.shares_memory) PADDLE_TRY_STATUS(link->share(until));
  return std::unique_ptr<Link>(std::move(link));
}

}  // namespace

Result<std::unique_ptr<Link>> connect(const ClientOptions& options, TimePoint deadline) {
  PADDLE_TRY(const asio::ip::tcp::endpoint endpoint, parse_endpoint(options.endpoint));
  PADDLE_TRY(const Nonce jitter, random_nonce());
  Rng rng(load_le<std::uint64_t>(jitter.data()));
  for (Duration backoff = kBackoffMin;; backoff = std::min(backoff * 2, kBackoffMax)) {
    auto link = connect_once(options, endpoint, deadline);
    if (link) return link;
    // Retries only temporary errors: the server has not started yet, or restarts.
    const Duration pause =
        backoff / 2 + Duration(static_cast<std::int64_t>(
                          rng.uniform() * static_cast<double>((backoff / 2).count())));
    const bool gives_up = options.gives_up && options.gives_up();
    if (gives_up || link.error().code != Errc::kUnreachable || now() + pause >= deadline) {
      return std::move(link).error().with(endpoint_text(endpoint));
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace paddle::net
