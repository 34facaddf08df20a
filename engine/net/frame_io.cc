#include "engine/net/frame_io.h"

#include <algorithm>

namespace paddle::net {
namespace {

std::size_t frame_bytes(const Frame& frame) {
  return kFrameHeaderBytes + frame.head.size() + frame.tail.size();
}

// Appends what is left of `part` after skipping `skip` bytes, which is reduced by what was skipped.
void gather(std::vector<ByteSpan>& parts, ByteSpan part, std::size_t& skip) {
  const std::size_t skipped = std::min(skip, part.size());
  skip -= skipped;
  if (skipped < part.size()) parts.push_back(part.subspan(skipped));
}

}  // namespace

FrameReader::FrameReader(std::size_t buffer_bytes, std::size_t payload_bytes_max)
    : buffer_(buffer_bytes), payload_bytes_max_(payload_bytes_max) {
  PADDLE_CHECK(buffer_bytes >= kFrameHeaderBytes);
}

void FrameReader::set_limits(std::size_t buffer_bytes, std::size_t payload_bytes_max) {
  PADDLE_CHECK(buffer_bytes >= buffer_.size());
  buffer_.resize(buffer_bytes);
  payload_bytes_max_ = payload_bytes_max;
}

std::span<std::byte> FrameReader::space() {
  if (decoded_ && head_filled_ == decoded_->head_bytes && tail_filled_ < decoded_->tail_bytes) {
    return std::span(frame_.tail).subspan(tail_filled_);
  }
  if (begin_ > 0) {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  return std::span(buffer_).subspan(end_);
}

void FrameReader::commit(std::size_t count) {
  if (decoded_ && head_filled_ == decoded_->head_bytes && tail_filled_ < decoded_->tail_bytes) {
    PADDLE_CHECK(count <= frame_.tail.size() - tail_filled_);
    tail_filled_ += count;
    return;
  }
  PADDLE_CHECK(count <= buffer_.size() - end_);
  end_ += count;
}

Status FrameReader::start_frame() {
  const auto from =
      std::span<const std::byte, kFrameHeaderBytes>(&buffer_[begin_], kFrameHeaderBytes);
  PADDLE_TRY(DecodedHeader decoded, decode_header(from, payload_bytes_max_));
  begin_ += kFrameHeaderBytes;
  decoded_ = decoded;
  frame_.header = decoded.header;
  frame_.head.resize(decoded.head_bytes);
  frame_.tail.resize(decoded.tail_bytes);
  head_filled_ = 0;
  tail_filled_ = 0;
  return {};
}

Result<std::optional<Frame>> FrameReader::next() {
  if (!decoded_) {
    if (buffered() < kFrameHeaderBytes) return std::optional<Frame>();
    PADDLE_TRY_STATUS(start_frame());
  }
  const auto take = [this](std::byte* to, std::size_t filled, std::size_t wanted) {
    const std::size_t count = std::min(wanted - filled, buffered());
    std::copy_n(buffer_.data() + begin_, count, to + filled);
    begin_ += count;
    return filled + count;
  };
  head_filled_ =
      take(reinterpret_cast<std::byte*>(frame_.head.data()), head_filled_, decoded_->head_bytes);
  if (head_filled_ < decoded_->head_bytes) return std::optional<Frame>();
  tail_filled_ = take(frame_.tail.data(), tail_filled_, decoded_->tail_bytes);
  if (tail_filled_ < decoded_->tail_bytes) return std::optional<Frame>();
  PADDLE_TRY_STATUS(check_payload(*decoded_, as_bytes(frame_.head), frame_.tail));
  decoded_.reset();
  return std::optional<Frame>(std::exchange(frame_, Frame{}));
}

void FrameWriter::push(Frame&& frame) {
  queued_bytes_ += frame_bytes(frame);
  const FrameHeaderBytes header = encode_header(frame);
  queue_.push_back({header, std::move(frame)});
}

Result<bool> FrameWriter::flush(Stream& stream) {
  std::vector<ByteSpan> parts;
  while (!queue_.empty()) {
    parts.clear();
    std::size_t skip = written_;
    for (const Entry& entry : queue_) {
      if (parts.size() + 3 > kGatherPartsMax) break;
      gather(parts, entry.header, skip);
      gather(parts, as_bytes(entry.frame.head), skip);
      gather(parts, entry.frame.tail, skip);
    }
    PADDLE_TRY(const std::size_t count, stream.write_some(parts));
    if (count == 0) return false;
    consume(count);
  }
  return true;
}

void FrameWriter::consume(std::size_t count) {
  queued_bytes_ -= count;
  written_ += count;
  while (!queue_.empty() && written_ >= frame_bytes(queue_.front().frame)) {
    written_ -= frame_bytes(queue_.front().frame);
    queue_.pop_front();
  }
}

}  // namespace paddle::net
