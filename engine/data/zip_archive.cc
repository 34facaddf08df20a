// Zip archives, read with minizip. Of the zip libraries in Debian, minizip has an archive for
// static programs, needs only zlib, and can seek, so that members can be read in parallel.
#include "engine/data/zip_archive.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <minizip/unzip.h>

#include "engine/data/file_kind.h"

namespace paddle::data {
namespace {

constexpr std::uint64_t kMembersMax = 16384;
constexpr std::size_t kEntryNameBytesMax = 1024;
constexpr std::size_t kReadMax = 1U << 30U;
constexpr uLong kIsEncrypted = 1;  // a bit of the flags
constexpr uLong kStored = 0;
constexpr uLong kDeflated = 8;

Error no_zip(const std::string& path, const UniqueFd& file) {
  std::array<char, 16> bytes{};
  const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  const std::string_view head(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (const std::string_view codec = compression_of(head); !codec.empty()) {
    return {Errc::kData, fmt::format("{}: it is compressed by {}, not a zip archive", path, codec),
            "unpack it; numpy.savez_compressed makes archives that are read as they are"};
  }
  if (head.starts_with("\x93NUMPY")) {
    return {Errc::kData, fmt::format("{}: it is one array, as numpy.save writes it", path),
            "numpy.savez(\"new.npz\", name=array) writes arrays with their names"};
  }
  return {Errc::kData,
          fmt::format("{}: it is not a zip archive, or it is cut off or damaged", path),
          "copy it again"};
}

}  // namespace

struct ZipArchive::File {
  UniqueFd fd;
  std::uint64_t bytes = 0;
  std::uint64_t read = 0;
};

// A handle of minizip with a position of its own in the file.
class ZipArchive::Handle {
 public:
  explicit Handle(std::shared_ptr<File> file) : file_(std::move(file)) {
    zlib_filefunc64_def calls{};
    calls.zopen64_file = [](void* handle, const void*, int) { return handle; };
    calls.zread_file = [](void* handle, void*, void* into, uLong size) {
      return static_cast<Handle*>(handle)->read(into, size);
    };
    calls.ztell64_file = [](void* handle, void*) -> ZPOS64_T {
      return static_cast<Handle*>(handle)->position_;
    };
    calls.zseek64_file = [](void* handle, void*, ZPOS64_T offset, int origin) -> long {
      static_cast<Handle*>(handle)->seek(offset, origin);
      return 0;
    };
    calls.zclose_file = [](void*, void*) { return 0; };
    calls.zerror_file = [](void* handle, void*) -> int {
      return static_cast<Handle*>(handle)->has_failed_ ? 1 : 0;
    };
    calls.opaque = this;
    zip_ = ::unzOpen2_64("", &calls);
  }
  ~Handle() {
    if (zip_ != nullptr) ::unzClose(zip_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  unzFile zip() const { return zip_; }  // null: this is no zip archive
  const File& file() const { return *file_; }

 private:
  uLong read(void* into, uLong size) {
    uLong held = 0;
    while (held < size) {
      const ssize_t count = ::pread(file_->fd.get(), static_cast<std::byte*>(into) + held,
                                    size - held, static_cast<off_t>(position_));
      if (count < 0 && errno == EINTR) continue;
      has_failed_ = has_failed_ || count < 0;
      if (count <= 0) break;
      held += static_cast<uLong>(count);
      position_ += static_cast<std::uint64_t>(count);
    }
    file_->read += held;
    return held;
  }
  // Moves to the end, where nothing can be read, for an offset after the end and for a negative
  // one.
  void seek(std::uint64_t offset, int origin) {
    if (origin == ZLIB_FILEFUNC_SEEK_CUR) offset += position_;
    if (origin == ZLIB_FILEFUNC_SEEK_END) offset += file_->bytes;
    position_ = std::min(offset, file_->bytes);
  }

  std::shared_ptr<File> file_;
  std::uint64_t position_ = 0;
  bool has_failed_ = false;
  unzFile zip_ = nullptr;
};

class ZipArchive::MemberSource final : public ByteSource {
 public:
  explicit MemberSource(std::shared_ptr<File> file) : handle_(std::move(file)) {}
  ~MemberSource() override {
    if (is_open_) ::unzCloseCurrentFile(handle_.zip());
  }
  MemberSource(const MemberSource&) = delete;
  MemberSource& operator=(const MemberSource&) = delete;

  Status begin(const Member& member) {
    const unz64_file_pos place{member.place, member.number};
    unz_file_info64 info{};
    if (handle_.zip() == nullptr || ::unzGoToFilePos64(handle_.zip(), &place) != UNZ_OK ||
        ::unzGetCurrentFileInfo64(handle_.zip(), &info, nullptr, 0, nullptr, 0, nullptr, 0) !=
            UNZ_OK) {
      return Error{Errc::kData, "the zip archive has changed"};
    }
    if ((info.flag & kIsEncrypted) != 0) return Error{Errc::kData, "it is encrypted"};
    if (info.compression_method != kStored && info.compression_method != kDeflated) {
      return Error{Errc::kData, fmt::format("it is compressed by method {}, which is not supported",
                                            info.compression_method)};
    }
    const int code = ::unzOpenCurrentFile(handle_.zip());
    if (code != UNZ_OK) return damaged(code);
    is_open_ = true;
    return {};
  }

  Result<std::size_t> read(std::span<std::byte> into) override {
    if (!is_open_) return std::size_t{0};
    const int count = ::unzReadCurrentFile(handle_.zip(), into.data(),
                                           static_cast<unsigned>(std::min(into.size(), kReadMax)));
    if (count < 0) return damaged(count);
    if (count > 0) return static_cast<std::size_t>(count);
    is_open_ = false;
    const int code = ::unzCloseCurrentFile(handle_.zip());
    if (code == UNZ_CRCERROR) return Error{Errc::kData, "its checksum is wrong"};
    if (code != UNZ_OK) return damaged(code);
    return std::size_t{0};
  }
  std::uint64_t position() const override { return handle_.file().read; }

 private:
  static Error damaged(int code) {
    if (code == UNZ_INTERNALERROR || code == Z_MEM_ERROR)
      return {Errc::kResource, "no memory to decompress"};
    return {Errc::kData, fmt::format("the zip archive is damaged or cut off there ({})", code)};
  }

  Handle handle_;
  bool is_open_ = false;
};

Result<ZipArchive> ZipArchive::open(UniqueFd file, const std::string& path) {
  ZipArchive archive;
  archive.file_ = std::make_shared<File>();
  archive.file_->fd = std::move(file);
  struct stat status {};
  if (::fstat(archive.file_->fd.get(), &status) != 0) return system_error(Errc::kData, path);
  if (!S_ISREG(status.st_mode)) {
    return Error{
        Errc::kData,
        path + ": it is not a regular file, and a zip archive cannot be read sequentially"};
  }
  archive.file_->bytes = static_cast<std::uint64_t>(status.st_size);
  const Handle handle(archive.file_);
  unz_global_info64 info{};
  if (handle.zip() == nullptr || ::unzGetGlobalInfo64(handle.zip(), &info) != UNZ_OK)
    return no_zip(path, archive.file_->fd);
  if (info.number_entry > kMembersMax) {
    return Error{Errc::kData, fmt::format("{}: it has {} members; the limit is {}", path,
                                          info.number_entry, kMembersMax)};
  }
  std::string name(kEntryNameBytesMax, '\0');
  for (std::uint64_t i = 0; i < info.number_entry; ++i) {
    unz_file_info64 entry{};
    unz64_file_pos place{};
    const int moved = i == 0 ? ::unzGoToFirstFile(handle.zip()) : ::unzGoToNextFile(handle.zip());
    if (moved != UNZ_OK ||
        ::unzGetCurrentFileInfo64(handle.zip(), &entry, name.data(), name.size(), nullptr, 0,
                                  nullptr, 0) != UNZ_OK ||
        ::unzGetFilePos64(handle.zip(), &place) != UNZ_OK) {
      return no_zip(path, archive.file_->fd);
    }
    if (entry.size_filename > kEntryNameBytesMax) continue;
    const auto [at, is_new] = archive.members_.try_emplace(
        name.substr(0, entry.size_filename),
        Member{place.pos_in_zip_directory, place.num_of_file, entry.uncompressed_size});
    if (is_new) continue;
    return Error{Errc::kData, fmt::format("{}: it has two members with the same name", path)};
  }
  return archive;
}

Result<std::unique_ptr<ByteSource>> ZipArchive::open_member(const Member& member) const {
  auto source = std::make_unique<MemberSource>(file_);
  PADDLE_TRY_STATUS(source->begin(member));
  return std::unique_ptr<ByteSource>(std::move(source));
}

std::uint64_t ZipArchive::file_bytes() const {
  return file_->bytes;
}

std::uint64_t ZipArchive::bytes_read() const {
  return file_->read;
}

}  // namespace paddle::data
