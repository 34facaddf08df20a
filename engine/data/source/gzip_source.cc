#include <zlib.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"
#include "engine/data/source/compressed_source.h"

namespace paddle::data {
namespace {

constexpr std::size_t kInputBytes = 128U << 10U;
constexpr int kGzipOnly = 15 + 16;  // zlib's window bits: 32 KiB, gzip header and trailer

class GzipSource final : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> from, std::string path)
      : from_(std::move(from)), path_(std::move(path)), input_(kInputBytes) {}
  ~GzipSource() override { ::inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  Status begin() {
    if (::inflateInit2(&stream_, kGzipOnly) == Z_OK) return {};
    return Error{Errc::kResource, fmt::format("{}: no memory to decompress", path_), ""};
  }

  Result<std::size_t> read(std::span<std::byte> into) override {
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(into.size(), 1U << 30U));
    const uInt room = stream_.avail_out;
    while (stream_.avail_out == room) {
      if (stream_.avail_in == 0) {
        PADDLE_TRY(const std::size_t count, from_->read(input_));
        if (count == 0) {
          if (!in_member_) return std::size_t{0};
          return Error{Errc::kData, fmt::format("{}: the gzip file is cut off", path_), ""};
        }
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(count);
      }
      in_member_ = true;
      const int code = ::inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        in_member_ = false;
        ::inflateReset(&stream_);
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return Error{Errc::kData,
                     fmt::format("{}: the gzip file is damaged: {}", path_,
                                 stream_.msg == nullptr ? "wrong data" : stream_.msg),
                     ""};
      }
    }
    return static_cast<std::size_t>(room - stream_.avail_out);
  }

 private:
  std::unique_ptr<ByteSource> from_;
  std::string path_;
  Bytes input_;
  z_stream stream_{};
  bool in_member_ = false;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_gzip(std::unique_ptr<ByteSource> from, std::string path) {
  auto source = std::make_unique<GzipSource>(std::move(from), std::move(path));
  PADDLE_TRY_STATUS(source->begin());
  return std::unique_ptr<ByteSource>(std::move(source));
}

}  // namespace paddle::data
