// TensorBoard event files: TFRecords of Event messages, each {u64 length, u32 masked CRC32C of the
// length, data, u32 masked CRC32C of the data}, little-endian. Format:
// https://www.tensorflow.org/tutorials/load_data/tfrecord ("TFRecords format details").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace paddle::cli {

// ((crc >> 15) | (crc << 17)) + 0xa282ead8
std::uint32_t masked_crc(ByteSpan data);

class EventFile {
 public:
  // Begins with the version event at that time.
  explicit EventFile(std::int64_t unix_ms);
  void scalar(std::int64_t unix_ms, std::int64_t step, const std::string& tag, double value);

  const std::string& content() const { return content_; }
  std::size_t scalars() const { return scalars_; }

 private:
  void record(std::string_view data);

  std::string content_;
  std::size_t scalars_ = 0;
};

}  // namespace paddle::cli
