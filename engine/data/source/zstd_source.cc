#include <zstd.h>

#include <fmt/format.h>

#include "base/bytes.h"
#include "engine/data/source/compressed_source.h"

namespace paddle::data {
namespace {

struct FreeStream {
  void operator()(ZSTD_DStream* stream) const { ::ZSTD_freeDStream(stream); }
};

class ZstdSource final : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> from, std::string path)
      : from_(std::move(from)), path_(std::move(path)), held_(::ZSTD_DStreamInSize()) {}

  Status begin() {
    stream_.reset(::ZSTD_createDStream());
    if (stream_) return {};
    return Error{Errc::kResource, fmt::format("{}: no memory to decompress", path_), ""};
  }

  Result<std::size_t> read(std::span<std::byte> into) override {
    ZSTD_outBuffer output{into.data(), into.size(), 0};
    while (output.pos == 0) {
      if (input_.pos == input_.size && !full_) {
        PADDLE_TRY(const std::size_t count, from_->read(held_));
        if (count == 0) {
          if (!in_frame_) return std::size_t{0};
          return Error{Errc::kData, fmt::format("{}: the zstd file is cut off", path_), ""};
        }
        input_ = {held_.data(), count, 0};
      }
      const std::size_t code = ::ZSTD_decompressStream(stream_.get(), &output, &input_);
      if (::ZSTD_isError(code) != 0) {
        return Error{
            Errc::kData,
            fmt::format("{}: the zstd file is damaged: {}", path_, ::ZSTD_getErrorName(code)), ""};
      }
      in_frame_ = code != 0;
      full_ = in_frame_ && output.pos == output.size;  // zstd may hold more output already
    }
    return output.pos;
  }

 private:
  std::unique_ptr<ByteSource> from_;
  std::string path_;
  Bytes held_;
  std::unique_ptr<ZSTD_DStream, FreeStream> stream_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool in_frame_ = false;
  bool full_ = false;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_zstd(std::unique_ptr<ByteSource> from, std::string path) {
  auto source = std::make_unique<ZstdSource>(std::move(from), std::move(path));
  PADDLE_TRY_STATUS(source->begin());
  return std::unique_ptr<ByteSource>(std::move(source));
}

}  // namespace paddle::data
