// Compressors of the texts of data files.
#pragma once

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <string>

#include <gtest/gtest.h>

namespace paddle::data {

inline std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  ::deflateEnd(&stream);
  return packed;
}

inline std::string zstd(const std::string& text) {
  std::string packed(::ZSTD_compressBound(text.size()), '\0');
  packed.resize(::ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

inline std::string bzip2(const std::string& text) {
  std::string packed(text.size() + text.size() / 100 + 600, '\0');
  auto size = static_cast<unsigned>(packed.size());
  EXPECT_EQ(::BZ2_bzBuffToBuffCompress(packed.data(), &size, const_cast<char*>(text.data()),
                                       static_cast<unsigned>(text.size()), 1, 0, 0),
            BZ_OK);
  packed.resize(size);
  return packed;
}

inline std::string xz(const std::string& text) {
  std::string packed(::lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  EXPECT_EQ(::lzma_easy_buffer_encode(
                1, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()),
                text.size(), reinterpret_cast<std::uint8_t*>(packed.data()), &size, packed.size()),
            LZMA_OK);
  packed.resize(size);
  return packed;
}

// A zstd frame of a text of less than 128 KiB with a window of 2^window_log bytes, as
// `zstd --long=<window_log>` makes it of a pipe.
inline std::string zstd_with_window(const std::string& text, unsigned window_log) {
  const auto block = static_cast<std::uint32_t>(1 + 8 * text.size());  // the last one, stored
  std::string frame("\x28\xb5\x2f\xfd\0", 5);
  frame += static_cast<char>((window_log - 10) << 3U);
  for (const unsigned shift : {0U, 8U, 16U}) frame += static_cast<char>(block >> shift);
  return frame + text;
}

}  // namespace paddle::data
