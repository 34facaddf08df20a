#include "cli/report/event_file.h"

#include <array>

#include "base/crc32c.h"
#include "proto/tensorboard.pb.h"

namespace paddle::cli {
namespace {

constexpr std::uint32_t kMaskDelta = 0xa282ead8U;

}  // namespace

std::uint32_t masked_crc(ByteSpan data) {
  const std::uint32_t crc = crc32c(data);
  return ((crc >> 15U) | (crc << 17U)) + kMaskDelta;
}

EventFile::EventFile(std::int64_t unix_ms) {
  wire::tensorboard::Event event;
  event.set_wall_time(static_cast<double>(unix_ms) / 1000);
  event.set_file_version("brain.Event:2");
  record(event.SerializeAsString());
}

void EventFile::scalar(std::int64_t unix_ms, std::int64_t step, const std::string& tag,
                       double value) {
  wire::tensorboard::Event event;
  event.set_wall_time(static_cast<double>(unix_ms) / 1000);
  event.set_step(step);
  wire::tensorboard::Summary::Value& one = *event.mutable_summary()->add_value();
  one.set_tag(tag);
  one.set_simple_value(static_cast<float>(value));
  record(event.SerializeAsString());
  ++scalars_;
}

void EventFile::record(std::string_view data) {
  std::array<std::byte, 8> length{};
  store_le(length.data(), std::uint64_t{data.size()});
  std::array<std::byte, 4> crc{};
  content_ += as_text(length);
  store_le(crc.data(), masked_crc(length));
  content_ += as_text(crc);
  content_ += data;
  store_le(crc.data(), masked_crc(as_bytes(data)));
  content_ += as_text(crc);
}

}  // namespace paddle::cli
