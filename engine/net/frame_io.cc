#include "engine/net/frame_io.h"

#include <algorithm>

#include "base/crc32c.h"

namespace paddle::net {
namespace {

// Largest read of a tail: small enough that its checksum is computed from the second-level cache.
constexpr std::size_t kTailReadBytesMax = 256U << 10U;
// Shorter pieces of a tail are copied from the buffer, which is cheaper than a system call.
constexpr std::size_t kPlaceReadBytesMin = 16U << 10U;

// Skips up to `skip` bytes of `part`, subtracts them from `skip` and appends the rest of `part`.
void gather(std::vector<ByteSpan>& parts, ByteSpan part, std::size_t& skip) {
  const std::size_t skipped = std::min(skip, part.size());
  skip -= skipped;
  if (skipped < part.size()) parts.push_back(part.subspan(skipped));
}

}  // namespace

FrameReader::FrameReader(std::size_t buffer_bytes, std::size_t payload_bytes_max)
    : buffer_bytes_(buffer_bytes), buffer_(buffer_bytes), payload_bytes_max_(payload_bytes_max) {
  PADDLE_CHECK(buffer_bytes >= kFrameHeaderBytes);
}

void FrameReader::set_limits(std::size_t buffer_bytes, std::size_t payload_bytes_max) {
  PADDLE_CHECK(buffer_bytes >= buffer_bytes_);
  buffer_bytes_ = buffer_bytes;
  buffer_.resize(std::max(buffer_.size(), buffer_bytes));
  payload_bytes_max_ = payload_bytes_max;
}

std::span<std::byte> FrameReader::space() {
  likely_ = {};
  if (reads_in_place()) {
    const std::size_t left = places_[place_].size() - place_filled_;
    return places_[place_].subspan(place_filled_, std::min(left, kTailReadBytesMax));
  }
  if (begin_ > 0) {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == 0 && buffer_.size() > buffer_bytes_) buffer_ = Bytes(buffer_bytes_);
  return std::span(buffer_).subspan(end_, std::max(buffer_bytes_, end_) - end_);
}

std::array<std::span<std::byte>, 2> FrameReader::space(std::span<std::byte> likely) {
  const std::span<std::byte> one = space();
  if (decoded_ || buffered() > 0 || likely.size() < kPlaceReadBytesMin) return {one, {}};
  likely_ = likely.first(std::min(likely.size(), kTailReadBytesMax));
  return {one.first(kFrameHeaderBytes), likely_};
}

void FrameReader::commit(std::size_t count) {
  const auto likely = std::exchange(likely_, {});
  if (!likely.empty() && count > kFrameHeaderBytes) {
    PADDLE_CHECK(count - kFrameHeaderBytes <= likely.size());
    early_ = likely.first(count - kFrameHeaderBytes);
    count = kFrameHeaderBytes;
  }
  if (reads_in_place()) {
    PADDLE_CHECK(count <= places_[place_].size() - place_filled_);
    take_tail(count);
    return;
  }
  PADDLE_CHECK(count <= buffer_.size() - end_);
  end_ += count;
}

// Whether the next bytes of the tail are read directly into their place: the buffer is empty, and
// the place is the only one or a long one.
bool FrameReader::reads_in_place() const {
  if (!is_in_tail_ || !has_tail_left() || buffered() > 0) return false;
  return places_.size() == 1 || places_[place_].size() - place_filled_ >= kPlaceReadBytesMin;
}

void FrameReader::take_tail(std::size_t count) {
  if (checks_payloads_) {
    payload_crc_ = crc32c(places_[place_].subspan(place_filled_, count), payload_crc_);
  }
  place_filled_ += count;
  if (place_filled_ < places_[place_].size()) return;
  ++place_;
  place_filled_ = 0;
}

// Moves early bytes to the buffer, because they are not the tail or because the caller takes their
// memory back.
void FrameReader::buffer_early() {
  const ByteSpan early = std::exchange(early_, {});
  if (buffer_.size() < end_ + early.size()) buffer_.resize(end_ + early.size());
  std::ranges::copy(early, buffer_.begin() + static_cast<std::ptrdiff_t>(end_));
  end_ += early.size();
}

Status FrameReader::start_frame() {
  const auto from =
      std::span<const std::byte, kFrameHeaderBytes>(&buffer_[begin_], kFrameHeaderBytes);
  PADDLE_TRY(DecodedHeader decoded, decode_header(from, payload_bytes_max_));
  begin_ += kFrameHeaderBytes;
  decoded_ = decoded;
  frame_.header = decoded.header;
  frame_.head.resize(decoded.head_bytes);
  head_filled_ = 0;
  is_in_tail_ = false;
  if (decoded.head_bytes > 0 || decoded.tail_bytes < early_.size()) buffer_early();
  return {};
}

void FrameReader::start_tail(const TailPlace& place) {
  payload_crc_ = checks_payloads_ ? crc32c(as_bytes(frame_.head)) : 0;
  is_in_tail_ = true;
  places_.clear();
  place_ = 0;
  place_filled_ = 0;
  const std::size_t tail_bytes = decoded_->tail_bytes;
  if (tail_bytes == 0) return;
  if (place) places_ = place(frame_.header, frame_.head, tail_bytes);
  std::erase_if(places_, [](std::span<std::byte> one) { return one.empty(); });
  is_placed_ = !places_.empty();
  if (!is_placed_) {
    frame_.tail.resize(tail_bytes);
    places_.emplace_back(frame_.tail);
  }
  std::size_t placed = 0;
  for (const auto one : places_) placed += one.size();
  PADDLE_CHECK(placed == tail_bytes);
  place_early();
}

// Makes early bytes the begin of the tail. Moves them only if the tail has another place.
void FrameReader::place_early() {
  for (ByteSpan early = std::exchange(early_, {}); !early.empty();) {
    const auto left = places_[place_].subspan(place_filled_);
    const std::size_t count = std::min(left.size(), early.size());
    if (left.data() != early.data()) std::memmove(left.data(), early.data(), count);
    take_tail(count);
    early = early.subspan(count);
  }
}

void FrameReader::let_go() {
  buffer_early();
  if (!std::exchange(is_placed_, false)) return;
  std::size_t left = 0;
  for (std::size_t i = place_; i < places_.size(); ++i) left += places_[i].size();
  left -= place_filled_;
  frame_.tail.resize(left);
  places_.clear();
  if (left > 0) places_.emplace_back(frame_.tail);
  place_ = place_filled_ = 0;
}

Result<const DecodedHeader*> FrameReader::peek() {
  if (!decoded_) {
    if (buffered() < kFrameHeaderBytes) return nullptr;
    PADDLE_TRY_STATUS(start_frame());
  }
  return &*decoded_;
}

Result<std::optional<Frame>> FrameReader::next(const TailPlace& place) {
  if (!decoded_) {
    if (buffered() < kFrameHeaderBytes) return std::optional<Frame>();
    PADDLE_TRY_STATUS(start_frame());
  }
  const auto take = [this](void* to, std::size_t wanted) {
    const std::size_t count = std::min(wanted, buffered());
    if (count > 0) std::memcpy(to, buffer_.data() + begin_, count);
    begin_ += count;
    return count;
  };
  if (!is_in_tail_) {
    head_filled_ += take(frame_.head.data() + head_filled_, frame_.head.size() - head_filled_);
    if (head_filled_ < frame_.head.size()) return std::optional<Frame>();
    start_tail(place);
  }
  while (has_tail_left() && buffered() > 0) {
    const auto left = places_[place_].subspan(place_filled_);
    take_tail(take(left.data(), left.size()));
  }
  if (has_tail_left()) return std::optional<Frame>();
  if (checks_payloads_ && payload_crc_ != decoded_->payload_crc) {
    return Error{Errc::kData, "frame payload is corrupt (CRC32C differs)"};
  }
  decoded_.reset();
  is_in_tail_ = false;
  is_placed_ = false;
  return std::optional<Frame>(std::exchange(frame_, Frame{}));
}

void FrameWriter::push(Frame&& frame, ByteSpan view) {
  const ByteSpan tail[] = {frame.tail, view};
  const FrameHeaderBytes header = encode_header(frame.header, as_bytes(frame.head), tail);
  queue_.push_back({header, std::move(frame), view});
  queued_bytes_ += queue_.back().bytes();
}

Result<bool> FrameWriter::flush(Stream& stream) {
  std::vector<ByteSpan> parts;
  while (!queue_.empty()) {
    parts.clear();
    std::size_t skip = written_;
    for (const Entry& entry : queue_) {
      if (parts.size() + 4 > kGatherPartsMax) break;
      gather(parts, entry.header, skip);
      gather(parts, as_bytes(entry.frame.head), skip);
      gather(parts, entry.frame.tail, skip);
      gather(parts, entry.view, skip);
    }
    PADDLE_TRY(const std::size_t count, stream.write_some(parts));
    if (count == 0) return false;
    consume(count);
  }
  return true;
}

void FrameWriter::keep_views() {
  for (Entry& entry : queue_) append_bytes(entry.frame.tail, std::exchange(entry.view, {}));
}

void FrameWriter::consume(std::size_t count) {
  queued_bytes_ -= count;
  written_ += count;
  while (!queue_.empty() && written_ >= queue_.front().bytes()) {
    written_ -= queue_.front().bytes();
    queue_.pop_front();
  }
}

}  // namespace paddle::net
