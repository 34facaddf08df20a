// Sources that decompress the bytes of another source.
#include <zlib.h>
#include <zstd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"
#include "engine/data/source/byte_source.h"

namespace paddle::data {
namespace {

constexpr std::size_t kGzipInputBytes = 128U << 10U;
constexpr int kGzipOnly = 15 + 16;  // zlib's window bits: 32 KiB, gzip header and trailer

class CompressedSource : public ByteSource {
 public:
  CompressedSource(std::unique_ptr<ByteSource> from, std::string path, std::string_view kind,
                   std::size_t input_bytes)
      : input_(input_bytes), from_(std::move(from)), path_(std::move(path)), kind_(kind) {}
  CompressedSource(const CompressedSource&) = delete;
  CompressedSource& operator=(const CompressedSource&) = delete;

  std::uint64_t position() const override { return from_->position(); }

 protected:
  // Replaces the input; 0 at the end of the file. kData: that is inside a member or frame.
  Result<std::size_t> read_input() {
    PADDLE_TRY(const std::size_t count, from_->read(input_));
    if (count > 0 || !is_inside_) return count;
    return Error{Errc::kData, fmt::format("{}: the {} file is cut off", path_, kind_)};
  }
  Error damaged(const char* why) const {
    return {Errc::kData, fmt::format("{}: the {} file is damaged: {}", path_, kind_, why)};
  }
  Error no_memory() const {
    return {Errc::kResource, fmt::format("{}: no memory to decompress", path_)};
  }

  Bytes input_;
  bool is_inside_ = false;  // a member or frame

 private:
  std::unique_ptr<ByteSource> from_;
  std::string path_;
  std::string_view kind_;
};

class GzipSource final : public CompressedSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> from, std::string path)
      : CompressedSource(std::move(from), std::move(path), "gzip", kGzipInputBytes) {}
  ~GzipSource() override { ::inflateEnd(&stream_); }

  Status begin() {
    if (::inflateInit2(&stream_, kGzipOnly) == Z_OK) return {};
    return no_memory();
  }

  Result<std::size_t> read(std::span<std::byte> into) override {
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(into.size(), 1U << 30U));
    const uInt room = stream_.avail_out;
    while (stream_.avail_out == room) {
      if (stream_.avail_in == 0) {
        PADDLE_TRY(const std::size_t count, read_input());
        if (count == 0) return count;
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(count);
      }
      is_inside_ = true;
      const int code = ::inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        is_inside_ = false;
        ::inflateReset(&stream_);
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return damaged(stream_.msg == nullptr ? "wrong data" : stream_.msg);
      }
    }
    return static_cast<std::size_t>(room - stream_.avail_out);
  }

 private:
  z_stream stream_{};
};

struct FreeStream {
  void operator()(ZSTD_DStream* stream) const { ::ZSTD_freeDStream(stream); }
};

class ZstdSource final : public CompressedSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> from, std::string path)
      : CompressedSource(std::move(from), std::move(path), "zstd", ::ZSTD_DStreamInSize()) {}

  Status begin() {
    stream_.reset(::ZSTD_createDStream());
    if (stream_) return {};
    return no_memory();
  }

  Result<std::size_t> read(std::span<std::byte> into) override {
    ZSTD_outBuffer output{into.data(), into.size(), 0};
    while (output.pos == 0) {
      if (held_.pos == held_.size) {  // zstd keeps a byte back while it holds output
        PADDLE_TRY(const std::size_t count, read_input());
        if (count == 0) return count;
        held_ = {input_.data(), count, 0};
      }
      const std::size_t code = ::ZSTD_decompressStream(stream_.get(), &output, &held_);
      if (::ZSTD_isError(code) != 0) return damaged(::ZSTD_getErrorName(code));
      is_inside_ = code != 0;
    }
    return output.pos;
  }

 private:
  std::unique_ptr<ZSTD_DStream, FreeStream> stream_;
  ZSTD_inBuffer held_{nullptr, 0, 0};
};

template <class Source>
Result<std::unique_ptr<ByteSource>> open(std::unique_ptr<ByteSource> from, std::string path) {
  auto source = std::make_unique<Source>(std::move(from), std::move(path));
  PADDLE_TRY_STATUS(source->begin());
  return std::unique_ptr<ByteSource>(std::move(source));
}

}  // namespace

Result<std::unique_ptr<ByteSource>> open_gzip(std::unique_ptr<ByteSource> from, std::string path) {
  return open<GzipSource>(std::move(from), std::move(path));
}

Result<std::unique_ptr<ByteSource>> open_zstd(std::unique_ptr<ByteSource> from, std::string path) {
  return open<ZstdSource>(std::move(from), std::move(path));
}

}  // namespace paddle::data
