// Compressors of the texts of data files.
#pragma once

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

}  // namespace paddle::data
