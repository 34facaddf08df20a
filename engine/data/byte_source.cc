#include "engine/data/byte_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/bytes.h"

namespace paddle::data {
namespace {

constexpr std::size_t kCopyBytes = 256U << 10U;

class FileSource final : public ByteSource {
 public:
  FileSource(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<std::size_t> read(std::span<std::byte> into) override {
    ssize_t count = 0;
    do {
      count = ::read(fd_.get(), into.data(), into.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) return system_error(Errc::kData, "read " + path_);
    return static_cast<std::size_t>(count);
  }
  bool skip(std::uint64_t count) override {
    return ::lseek(fd_.get(), static_cast<off_t>(count), SEEK_CUR) >= 0;
  }
  std::uint64_t position() const override { return position_of(fd_); }

 private:
  UniqueFd fd_;
  std::string path_;
};

}  // namespace

UniqueFd open_file(const std::string& path) {
  if (path == kStandardInput) return UniqueFd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

std::uint64_t position_of(const UniqueFd& file) {
  const off_t at = ::lseek(file.get(), 0, SEEK_CUR);
  return at > 0 ? static_cast<std::uint64_t>(at) : 0;
}

Result<UniqueFd> open_seekable(const std::string& path, const SourceOptions& options) {
  if (options.command.empty() || path == kStandardInput) {
    UniqueFd file = open_file(path);
    if (!file) return system_error(Errc::kData, "open " + path);
    return file;
  }
  PADDLE_TRY(const auto source, open_source(path, options));
  std::string name = options.folder + "/.object-XXXXXX";
  UniqueFd copy(::mkostemp(name.data(), O_CLOEXEC));
  if (!copy) return system_error(Errc::kResource, "make " + name);
  ::unlink(name.c_str());
  Bytes bytes(kCopyBytes);
  for (;;) {
    PADDLE_TRY(const std::size_t count, source->read(bytes));
    if (count == 0) return copy;
    const auto read = std::span(bytes).first(count);
    if (Status written = write_all(copy.get(), read, TimePoint::max()); !written)
      return std::move(written).error().with(path + ": copying it to " + options.folder);
  }
}

Result<std::unique_ptr<ByteSource>> open_source(const std::string& path,
                                                const SourceOptions& options) {
  std::unique_ptr<ByteSource> file;
  if (!options.command.empty() && path != kStandardInput) {
    PADDLE_TRY(file, open_command("read", path, options));
  } else {
    UniqueFd fd = open_file(path);
    if (!fd) return system_error(Errc::kData, "open " + path);
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
    if (!options.pipe_command.empty()) return open_pipe(std::move(fd), path, options);
    file = std::make_unique<FileSource>(std::move(fd), path);
  }
  return decompressed(std::move(file), path, decoder_memory_max());
}

}  // namespace paddle::data
