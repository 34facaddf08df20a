#include "engine/net/peer/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/crc32c.h"

namespace paddle::net::peer {
namespace {

// The begin of a long tail that is read along with a frame's header is copied; a short frame comes
// whole.
constexpr std::size_t kBufferBytes = 8U << 10U;

}  // namespace

Connection::Connection(UniqueFd fd, std::unique_ptr<Stream> stream, RingStream* ring,
                       FrameReader reader, const Ends& ends, bool trusts_payloads)
    : fd_(std::move(fd)),
      stream_(std::move(stream)),
      ring_(ring),
      reader_(std::move(reader)),
      ends_(ends),
      trusts_payloads_(trusts_payloads) {
  reader_.set_limits(kBufferBytes, kFramePayloadBytesMax);
  if (trusts_payloads) reader_.trust_payloads();
}

void Connection::begin(FrameHeader header, std::string head, ByteSpan tail) {
  PADDLE_CHECK(left_ == 0);
  header.job_tag = ends_.job_tag;
  header.sender = ends_.self;
  header.incarnation = ends_.incarnation;
  head_ = std::move(head);
  tail_ = tail;
  const std::uint32_t crc = trusts_payloads_ ? 0 : crc32c(tail_, crc32c(as_bytes(head_)));
  header_ = encode_header(header, head_.size(), tail_.size(), crc);
  left_ = header_.size() + head_.size() + tail_.size();
}

Result<bool> Connection::flush() {
  while (left_ > 0) {
    std::array<ByteSpan, 3> parts;
    std::size_t count = 0;
    std::size_t skip = header_.size() + head_.size() + tail_.size() - left_;
    for (const ByteSpan part : {ByteSpan(header_), as_bytes(head_), tail_}) {
      if (skip < part.size()) parts[count++] = part.subspan(skip);
      skip -= std::min(skip, part.size());
    }
    PADDLE_TRY(const std::size_t written, stream_->write_some(std::span(parts).first(count)));
    if (written == 0) return false;
    left_ -= written;
  }
  return true;
}

Result<std::size_t> Connection::read() {
  PADDLE_TRY(const std::size_t count, stream_->read_some(reader_.space()));
  reader_.commit(count);
  return count;
}

Result<const DecodedHeader*> Connection::peek() {
  PADDLE_TRY(const DecodedHeader* const decoded, reader_.peek());
  if (decoded == nullptr) return decoded;
  const FrameHeader& header = decoded->header;
  if (header.type < kFirstApplicationType || header.job_tag != ends_.job_tag ||
      header.sender != ends_.peer || header.incarnation != ends_.peer_incarnation) {
    return Error{Errc::kAuth, "frame with another identity than the proven one"};
  }
  return decoded;
}

void Connection::let_go() {
  reader_.let_go();
  if (left_ == 0) return;
  kept_.assign(tail_.begin(), tail_.end());
  tail_ = kept_;
}

bool Connection::prepare_sleep(bool wants_data) {
  if (ring_ == nullptr) return !wants_data || !has_read_ahead();
  return ring_->prepare_sleep((wants_data ? kWantsData : 0U) | (is_writing() ? kWantsRoom : 0U));
}

void Connection::wake() {
  if (ring_ != nullptr) ring_->wake();
}

void Connection::end() {
  ::shutdown(fd_.get(), SHUT_WR);
}

bool Connection::is_closed() const {
  pollfd socket{fd_.get(), POLLRDHUP, 0};
  return ::poll(&socket, 1, 0) > 0;
}

Duration Connection::unacknowledged(TimePoint now) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_unacked == 0) {
    unacknowledged_since_.reset();
    return {};
  }
  // The last answer may be old because nothing was sent for long.
  if (!unacknowledged_since_) unacknowledged_since_ = now;
  return std::min<Duration>(std::chrono::milliseconds(info.tcpi_last_ack_recv),
                            now - *unacknowledged_since_);
}

}  // namespace paddle::net::peer
