// Sources that decompress the bytes of another source.
#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/control_group.h"
#include "base/text.h"
#include "engine/data/byte_source.h"
#include "engine/data/file_kind.h"

namespace paddle::data {
namespace {

constexpr std::size_t kInputBytes = 128U << 10U;
constexpr std::size_t kHeadBytes = 18;  // of a member: enough to identify it and its window
constexpr int kGzipOnly = 15 + 16;      // zlib's window bits: 32 KiB, gzip header and trailer

// Accounts for the memory of decoders that need more than kFreeBytes; together they get at most
// `max` bytes. Each source has its own DecoderMemory.
class DecoderMemory {
 public:
  explicit DecoderMemory(std::uint64_t max) : max_(max) {}
  ~DecoderMemory() { give_back(); }
  DecoderMemory(const DecoderMemory&) = delete;
  DecoderMemory& operator=(const DecoderMemory&) = delete;

  static constexpr std::uint64_t kFreeBytes = 128U << 20U;
  // Replaces the amount that this object holds; false if all together would hold too much.
  bool take(std::uint64_t bytes) {
    give_back();
    if (bytes <= kFreeBytes) return true;
    if (g_held.fetch_add(bytes) + bytes > max_) {
      g_held -= bytes;
      return false;
    }
    held_ = bytes;
    return true;
  }
  std::uint64_t max() const { return max_; }

 private:
  void give_back() { g_held -= std::exchange(held_, 0); }

  static inline std::atomic<std::uint64_t> g_held = 0;
  std::uint64_t max_;
  std::uint64_t held_ = 0;
};

// A file of members (gzip, xz: streams; zstd: frames), one after the other. Zero bytes after a
// member are padding, which block devices and some writers leave.
class CompressedSource : public ByteSource {
 public:
  CompressedSource(std::unique_ptr<ByteSource> from, std::string path, std::string_view kind)
      : input_(kInputBytes), from_(std::move(from)), path_(std::move(path)), kind_(kind) {}
  CompressedSource(const CompressedSource&) = delete;
  CompressedSource& operator=(const CompressedSource&) = delete;

  std::uint64_t position() const override { return from_->position(); }
  virtual Status begin() { return {}; }

  Result<std::size_t> read(std::span<std::byte> into) final {
    for (;;) {
      if (!is_inside_) {
        PADDLE_TRY(is_inside_, begin_next());
        if (!is_inside_) return std::size_t{0};
      } else if (unread_.empty()) {
        PADDLE_TRY(const bool has_more, read_more());
        if (!has_more) return cut_off();
      }
      PADDLE_TRY(const std::size_t count, decompress(into));
      if (count > 0) return count;
    }
  }

 protected:
  // Whether a member begins with these bytes, which are fewer than kHeadBytes at the file's end.
  virtual bool begins(std::string_view head) const = 0;
  virtual Status begin_member(std::string_view head) = 0;
  // Decompresses some of unread(), which is not empty. Calls end_member() after the last byte.
  virtual Result<std::size_t> decompress(std::span<std::byte> into) = 0;

  std::span<std::byte> unread() const { return unread_; }
  void take(std::size_t count) { unread_ = unread_.subspan(count); }
  void end_member() { is_inside_ = false; }

  Error damaged(std::string_view why) const {
    return {Errc::kData, fmt::format("{}: the {} file is damaged: {}", path_, kind_, why)};
  }
  Error needs_dictionary() const {
    return {
        Errc::kData,
        fmt::format("{}: the {} file was compressed with a dictionary, which it needs", path_,
                    kind_),
        R"([data] pipe_command names a program that has it: ["zstd", "-dc", "-D", "DICTIONARY"])"};
  }
  Error no_memory(std::string_view what = "") const {
    return {Errc::kResource, fmt::format("{}: no memory to decompress{}", path_, what)};
  }
  Error too_large(std::uint64_t bytes, std::uint64_t max, std::string_view option) const {
    return {Errc::kResource,
            fmt::format("{}: decompression needs a window of {} ({}), but all files that are read "
                        "at once may use {} on this machine",
                        path_, human_bytes(bytes), option, human_bytes(max)),
            fmt::format("lower [data] files_at_once, or compress it again without {}", option)};
  }

 private:
  // False at the end of the file.
  Result<bool> read_more() {
    if (!unread_.empty()) std::memmove(input_.data(), unread_.data(), unread_.size());
    const auto room = std::span(input_).subspan(unread_.size());
    PADDLE_TRY(const std::size_t count, from_->read(room));
    unread_ = std::span(input_).first(unread_.size() + count);
    return count > 0;
  }

  // Skips padding and begins the next member; false at the end of the file.
  Result<bool> begin_next() {
    for (bool has_more = true; has_more;) {
      const auto used = std::ranges::find_if(
          unread_, [&](std::byte one) { return !has_member_ || one != std::byte{0}; });
      take(static_cast<std::size_t>(used - unread_.begin()));
      if (unread_.size() >= kHeadBytes) break;
      PADDLE_TRY(has_more, read_more());
    }
    if (unread_.empty()) return false;
    const std::string_view head = as_text(unread_.first(std::min(unread_.size(), kHeadBytes)));
    if (!begins(head)) return no_member();
    has_member_ = true;
    PADDLE_TRY_STATUS(begin_member(head));
    return true;
  }

  Error no_member() const {
    if (has_member_) return damaged(fmt::format("the data after its end is not {}", kind_));
    const std::string_view other = compression_of(as_text(unread_));
    return damaged(
        other.empty()
            ? fmt::format("it does not begin like {} data", kind_)
            : fmt::format("it begins like {} data, although its name has another ending", other));
  }

  Error cut_off() const {
    return {Errc::kData, fmt::format("{}: the {} file is cut off", path_, kind_)};
  }

  Bytes input_;
  std::span<std::byte> unread_;  // part of input_
  bool is_inside_ = false;       // inside a member
  bool has_member_ = false;      // a member has begun
  std::unique_ptr<ByteSource> from_;
  std::string path_;
  std::string_view kind_;
};

// Whether `head` begins with `magic`, or with its beginning if `head` is shorter.
bool agrees(std::string_view head, std::string_view magic) {
  const std::size_t size = std::min(head.size(), magic.size());
  return head.substr(0, size) == magic.substr(0, size);
}

class GzipSource final : public CompressedSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> from, std::string path, std::uint64_t /*memory_max*/)
      : CompressedSource(std::move(from), std::move(path), "gzip") {}
  ~GzipSource() override { ::inflateEnd(&stream_); }

  Status begin() override {
    if (::inflateInit2(&stream_, kGzipOnly) == Z_OK) return {};
    return no_memory();
  }

 private:
  bool begins(std::string_view head) const override { return agrees(head, "\x1f\x8b"); }
  Status begin_member(std::string_view /*head*/) override {
    ::inflateReset(&stream_);
    return {};
  }
  Result<std::size_t> decompress(std::span<std::byte> into) override {
    const auto room = static_cast<uInt>(std::min<std::size_t>(into.size(), 1U << 30U));
    stream_.next_in = reinterpret_cast<Bytef*>(unread().data());
    stream_.avail_in = static_cast<uInt>(unread().size());
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = room;
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    take(unread().size() - stream_.avail_in);
    if (code == Z_MEM_ERROR) return no_memory();
    if (code == Z_STREAM_END) {
      end_member();
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return damaged(stream_.msg == nullptr ? "wrong data" : stream_.msg);
    }
    return static_cast<std::size_t>(room - stream_.avail_out);
  }

  z_stream stream_{};
};

class Bzip2Source final : public CompressedSource {
 public:
  Bzip2Source(std::unique_ptr<ByteSource> from, std::string path, std::uint64_t /*memory_max*/)
      : CompressedSource(std::move(from), std::move(path), "bzip2") {}
  ~Bzip2Source() override { ::BZ2_bzDecompressEnd(&stream_); }

 private:
  bool begins(std::string_view head) const override {
    return agrees(head, "BZh") && (head.size() < 4 || (head[3] >= '1' && head[3] <= '9'));
  }
  Status begin_member(std::string_view /*head*/) override {
    ::BZ2_bzDecompressEnd(&stream_);
    stream_ = {};
    if (::BZ2_bzDecompressInit(&stream_, 0, 0) == BZ_OK) return {};
    return no_memory();
  }
  Result<std::size_t> decompress(std::span<std::byte> into) override {
    const auto room = static_cast<unsigned>(std::min<std::size_t>(into.size(), 1U << 30U));
    stream_.next_in = reinterpret_cast<char*>(unread().data());
    stream_.avail_in = static_cast<unsigned>(unread().size());
    stream_.next_out = reinterpret_cast<char*>(into.data());
    stream_.avail_out = room;
    const int code = ::BZ2_bzDecompress(&stream_);
    take(unread().size() - stream_.avail_in);
    if (code == BZ_MEM_ERROR) return no_memory();
    if (code == BZ_STREAM_END) {
      end_member();
    } else if (code != BZ_OK) {
      return damaged(code == BZ_DATA_ERROR ? "a checksum or a block is wrong" : "wrong data");
    }
    return static_cast<std::size_t>(room - stream_.avail_out);
  }

  bz_stream stream_{};
};

class XzSource final : public CompressedSource {
 public:
  XzSource(std::unique_ptr<ByteSource> from, std::string path, std::uint64_t memory_max)
      : CompressedSource(std::move(from), std::move(path), "xz"), memory_(memory_max) {}
  ~XzSource() override { ::lzma_end(&stream_); }

 private:
  bool begins(std::string_view head) const override {
    return agrees(head, std::string_view("\xfd"
                                         "7zXZ\0",
                                         6));
  }
  Status begin_member(std::string_view /*head*/) override {
    if (::lzma_stream_decoder(&stream_, DecoderMemory::kFreeBytes, 0) == LZMA_OK) return {};
    return no_memory();
  }
  Result<std::size_t> decompress(std::span<std::byte> into) override {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(unread().data());
    stream_.avail_in = unread().size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(into.data());
    stream_.avail_out = into.size();
    lzma_ret code = ::lzma_code(&stream_, LZMA_RUN);
    if (code == LZMA_MEMLIMIT_ERROR) {
      const std::uint64_t needed = ::lzma_memusage(&stream_);
      if (!memory_.take(needed)) return too_large(needed, memory_.max(), "--lzma2=dict=...");
      if (::lzma_memlimit_set(&stream_, needed) != LZMA_OK) return no_memory();
      code = ::lzma_code(&stream_, LZMA_RUN);
    }
    take(unread().size() - stream_.avail_in);
    if (code == LZMA_MEM_ERROR) return no_memory();
    if (code == LZMA_STREAM_END) {
      end_member();
    } else if (code == LZMA_OPTIONS_ERROR) {
      return damaged("it uses an unknown filter");
    } else if (code != LZMA_OK && code != LZMA_BUF_ERROR) {
      return damaged("wrong data");
    }
    return into.size() - stream_.avail_out;
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
  DecoderMemory memory_;
};

struct FreeStream {
  void operator()(ZSTD_DStream* stream) const { ::ZSTD_freeDStream(stream); }
};

class ZstdSource final : public CompressedSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> from, std::string path, std::uint64_t memory_max)
      : CompressedSource(std::move(from), std::move(path), "zstd"), memory_(memory_max) {}

  Status begin() override {
    stream_.reset(::ZSTD_createDStream());
    if (!stream_) return no_memory();
    const ZSTD_bounds bounds = ::ZSTD_dParam_getBounds(ZSTD_d_windowLogMax);
    ::ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, bounds.upperBound);
    return {};
  }

 private:
  // Whether a frame is of one of the sixteen kinds that decoders skip (RFC 8878).
  static bool is_skipped(std::string_view head) {
    return (head[0] & '\xf0') == '\x50' && agrees(head.substr(1), "\x2a\x4d\x18");
  }
  bool begins(std::string_view head) const override {
    return agrees(head, "\x28\xb5\x2f\xfd") || is_skipped(head);
  }
  // Size of a frame's window: the last bytes, to which later bytes may refer. A frame of a single
  // segment has all its bytes in the window.
  static std::uint64_t window_of(std::string_view head) {
    constexpr std::array<std::size_t, 4> kDictionaryBytes{0, 1, 2, 4};
    constexpr std::array<std::size_t, 4> kSizeBytes{1, 2, 4, 8};
    if (is_skipped(head) || head.size() < 6) return 0;
    const auto flags = static_cast<unsigned char>(head[4]);
    if ((flags & 0x20U) != 0) {
      const std::size_t begin = 5 + kDictionaryBytes[flags & 3U];
      std::uint64_t size = 0;
      std::memcpy(&size, head.data() + std::min(begin, head.size()),
                  std::min(kSizeBytes[flags >> 6U], head.size() - std::min(begin, head.size())));
      return size;
    }
    const auto descriptor = static_cast<unsigned char>(head[5]);
    const std::uint64_t base = std::uint64_t{1} << (10 + (descriptor >> 3U));
    return base + base / 8 * (descriptor & 7U);
  }
  Status begin_member(std::string_view head) override {
    window_ = window_of(head);
    if (memory_.take(window_)) return {};
    return too_large(window_, memory_.max(), "--long");
  }
  Result<std::size_t> decompress(std::span<std::byte> into) override {
    ZSTD_inBuffer input{unread().data(), unread().size(), 0};
    ZSTD_outBuffer output{into.data(), into.size(), 0};
    // The decoder leaves a byte of the input while it still has output.
    const std::size_t code = ::ZSTD_decompressStream(stream_.get(), &output, &input);
    take(input.pos);
    const ZSTD_ErrorCode error = ::ZSTD_getErrorCode(code);
    if (error == ZSTD_error_memory_allocation)
      return no_memory(fmt::format(", with a window of {} (--long)", human_bytes(window_)));
    if (error == ZSTD_error_frameParameter_windowTooLarge)
      return too_large(window_, std::uint64_t{1} << 31U, "--long");
    if (error == ZSTD_error_dictionary_wrong) return needs_dictionary();
    if (error != ZSTD_error_no_error) return damaged(::ZSTD_getErrorName(code));
    if (code == 0) end_member();
    return output.pos;
  }

  std::unique_ptr<ZSTD_DStream, FreeStream> stream_;
  std::uint64_t window_ = 0;  // window of the current frame
  DecoderMemory memory_;
};

template <class Source>
Result<std::unique_ptr<ByteSource>> open(std::unique_ptr<ByteSource> from, std::string path,
                                         std::uint64_t memory_max) {
  auto source = std::make_unique<Source>(std::move(from), std::move(path), memory_max);
  PADDLE_TRY_STATUS(source->begin());
  return std::unique_ptr<ByteSource>(std::move(source));
}

struct Codec {
  std::string_view ending;
  decltype(&open<GzipSource>) make;
};
constexpr std::array<Codec, 4> kCodecs{{{".gz", open<GzipSource>},
                                        {".zst", open<ZstdSource>},
                                        {".bz2", open<Bzip2Source>},
                                        {".xz", open<XzSource>}}};

}  // namespace

std::uint64_t decoder_memory_max() {
  static const std::uint64_t half = usable_memory_bytes() / 2;
  return half;
}

Result<std::unique_ptr<ByteSource>> decompressed(std::unique_ptr<ByteSource> from,
                                                 const std::string& path,
                                                 std::uint64_t memory_max) {
  for (const Codec& codec : kCodecs) {
    if (path.ends_with(codec.ending)) return codec.make(std::move(from), path, memory_max);
  }
  return from;
}

}  // namespace paddle::data
