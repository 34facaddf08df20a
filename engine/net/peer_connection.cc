#include "engine/net/peer_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "engine/net/mesh_sockets.h"

namespace paddle::net::peer {
namespace {

// Size of the read buffer. A short frame is read completely with its header; of a long tail, the
// begin that was read with the header is copied to its place.
constexpr std::size_t kBufferBytes = 8U << 10U;

Duration unacknowledged_by(int fd, std::optional<TimePoint>& since, TimePoint now) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_unacked == 0) {
    since.reset();
    return {};
  }
  // The last acknowledgement may be old only because nothing was sent since.
  if (!since) since = now;
  return std::min<Duration>(std::chrono::milliseconds(info.tcpi_last_ack_recv), now - *since);
}

}  // namespace

Connection::Connection(Lane first, RingStream* ring, FrameReader reader, const Ends& ends,
                       bool trusts_payloads)
    : stream_(std::move(first.stream)),
      ring_(ring),
      reader_(std::move(reader)),
      ends_(ends),
      trusts_payloads_(trusts_payloads) {
  sockets_.push_back({std::move(first.fd)});
  if (ring_ == nullptr) {
    reader_.set_limits(kBufferBytes, kFramePayloadBytesMax);
  } else {
    // Reads of shared memory need no system call, so the buffer has room for a header only and a
    // tail is read directly into its place.
    reader_ = FrameReader(kFrameHeaderBytes, kFramePayloadBytesMax);
  }
  if (trusts_payloads) reader_.trust_payloads();
}

void Connection::widen(std::vector<Lane> others) {
  PADDLE_CHECK(ring_ == nullptr && striped_ == nullptr && reader_.is_idle());
  if (others.empty()) return;
  std::vector<std::unique_ptr<Stream>> streams;
  streams.push_back(std::move(stream_));
  for (Lane& lane : others) {
    sockets_.push_back({std::move(lane.fd)});
    streams.push_back(std::move(lane.stream));
  }
  auto striped = std::make_unique<StripedStream>(std::move(streams));
  striped_ = striped.get();
  stream_ = std::move(striped);
}

void Connection::begin(FrameHeader header, std::string head, ByteSpan tail) {
  PADDLE_CHECK(can_begin());
  header.job_tag = ends_.job_tag;
  header.sender = ends_.self;
  header.incarnation = ends_.incarnation;
  head_ = std::move(head);
  tail_ = tail;
  const auto array =
      std::ranges::find_if(lent_, [&](const auto& one) { return one->contains(tail); });
  is_lent_ = tail.size() >= kLentTailBytesMin && array != lent_.end() && head_.empty();
  if (is_lent_) {
    header.flags |= kTailIsLent;
    head_ = lent_head(**array, std::exchange(tail_, {}));
    ring_->lend();
  }
  const std::uint32_t crc = trusts_payloads_ ? 0 : crc32c(tail_, crc32c(as_bytes(head_)));
  header_ = encode_header(header, head_.size(), tail_.size(), crc);
  left_ = header_.size() + head_.size() + tail_.size();
}

Result<std::size_t> Connection::flush() {
  while (left_ > 0) {
    std::array<ByteSpan, 3> parts;
    std::size_t count = 0;
    std::size_t skip = header_.size() + head_.size() + tail_.size() - left_;
    for (const ByteSpan part : {ByteSpan(header_), as_bytes(head_), tail_}) {
      if (skip < part.size()) parts[count++] = part.subspan(skip);
      skip -= std::min(skip, part.size());
    }
    const auto written = stream_->write_some(std::span(parts).first(count));
    if (!written) {
      auto finished = finish();  // a peer that left the group has read everything
      if (finished && *finished > 0) return finished;
      return written.error();
    }
    if (*written == 0) break;
    left_ -= *written;
    if (left_ == 0) unfinished_.push_back(is_lent_);
  }
  return finish();
}

Result<std::size_t> Connection::finish() {
  std::size_t finished = 0;
  for (; !unfinished_.empty(); ++finished) {
    if (unfinished_.front() && !is_revoked_) {
      if (taken_ == 0) {
        PADDLE_TRY(taken_, ring_->newly_taken());
      }
      if (taken_ == 0) break;
      --taken_;
    }
    unfinished_.pop_front();
  }
  return finished;
}

Result<std::size_t> Connection::read(std::span<std::byte> likely) {
  const auto parts = reader_.space(likely);
  PADDLE_TRY(const std::size_t count,
             parts.back().empty() ? stream_->read_some(parts.front()) : stream_->read_parts(parts));
  reader_.commit(count);
  return count;
}

Result<const DecodedHeader*> Connection::peek() {
  if (taking_) return &taking_->decoded;
  PADDLE_TRY(const DecodedHeader* const decoded, reader_.peek());
  if (decoded == nullptr) return decoded;
  const FrameHeader& header = decoded->header;
  if (header.type < kFirstApplicationType || header.job_tag != ends_.job_tag ||
      header.sender != ends_.peer || header.incarnation != ends_.peer_incarnation) {
    return Error{Errc::kAuth, "frame with another identity than the proven one"};
  }
  if (ring_ == nullptr || (header.flags & kTailIsLent) == 0) return decoded;
  return begin_taking(*decoded);
}

Result<const DecodedHeader*> Connection::begin_taking(const DecodedHeader& decoded) {
  if (decoded.head_bytes != kLentHeadBytes || decoded.tail_bytes != 0) {
    return Error{Errc::kData, "a frame with a lent tail is malformed"};
  }
  Taking taking{.decoded = decoded, .tail = ByteSpan()};
  PADDLE_TRY(const std::optional<Frame> frame, reader_.next());
  if (!frame) return nullptr;
  const std::uint64_t bytes = lent_bytes(frame->head);
  if (bytes == 0 || bytes > kFramePayloadBytesMax) {
    return Error{Errc::kData, "a lent tail has an invalid size"};
  }
  taking.tail = arrays_.find(frame->head);
  taking.decoded.header.flags &= static_cast<std::uint16_t>(~kTailIsLent);
  taking.decoded.head_bytes = 0;
  taking.decoded.tail_bytes = static_cast<std::uint32_t>(bytes);
  taking_ = std::move(taking);
  return &taking_->decoded;
}

Result<std::optional<Frame>> Connection::next(const TailPlace& place) {
  if (!taking_) return reader_.next(place);
  const Taking taking = *std::exchange(taking_, {});
  if (!taking.tail) {
    const bool has_gone = taking.tail.error().code == Errc::kUnreachable || is_closed();
    if (has_gone || ring_->is_revoked()) return std::optional<Frame>();
    return taking.tail.error();
  }
  const auto& decoded = taking.decoded;
  const ByteSpan tail = *taking.tail;
  Frame frame{.header = decoded.header, .head = {}, .tail = {}};
  auto places =
      place ? place(frame.header, frame.head, tail.size()) : std::vector<std::span<std::byte>>();
  if (places.empty()) {
    frame.tail.resize(tail.size());
    places.emplace_back(frame.tail);
  }
  std::size_t begin = 0;
  for (const std::span<std::byte> part : places) {
    PADDLE_CHECK(part.size() <= tail.size() - begin);
    std::memcpy(part.data(), tail.data() + begin, part.size());
    begin += part.size();
  }
  PADDLE_CHECK(begin == tail.size());
  if (ring_->is_revoked()) return std::optional<Frame>();
  ring_->take();
  return std::optional<Frame>(std::move(frame));
}

void Connection::let_go() {
  if (std::exchange(is_revoked_, true)) return;
  reader_.let_go();
  if (ring_ != nullptr) ring_->revoke();
  if (left_ == 0) return;
  kept_.assign(tail_.begin(), tail_.end());
  tail_ = kept_;
}

bool Connection::prepare_sleep(bool wants_data) {
  if (ring_ == nullptr) return !wants_data || !has_read_ahead();
  return ring_->prepare_sleep((wants_data ? kWantsData : 0U) | (left_ > 0 ? kWantsRoom : 0U) |
                              (unfinished_.empty() ? 0U : kWantsTaken));
}

void Connection::wake() {
  if (ring_ != nullptr) ring_->wake();
}

void Connection::end() {
  for (const Socket& socket : sockets_) ::shutdown(socket.fd.get(), SHUT_WR);
}

bool Connection::is_closed() const {
  return std::ranges::any_of(sockets_,
                             [](const Socket& socket) { return is_hung_up(socket.fd.get()); });
}

Status Connection::check_lanes() const {
  if (striped_ == nullptr || has_read_ahead()) return {};
  pollfd next{reads_from(), POLLIN, 0};
  // The end or error is reported after these bytes are read.
  if (::poll(&next, 1, 0) != 0) return {};
  for (std::size_t lane = 0; lane < sockets_.size(); ++lane) {
    pollfd socket{descriptor(lane), 0, 0};
    if (::poll(&socket, 1, 0) <= 0) continue;
    return Error{Errc::kUnreachable, fmt::format("lane {} of {} is broken", lane, sockets_.size())};
  }
  return {};
}

Duration Connection::unacknowledged(TimePoint now) {
  Duration longest{};
  for (Socket& socket : sockets_) {
    longest =
        std::max(longest, unacknowledged_by(socket.fd.get(), socket.unacknowledged_since, now));
  }
  return longest;
}

}  // namespace paddle::net::peer
