#include "engine/snapshot/parameter_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "base/fd.h"

namespace paddle::snapshot {
namespace {

constexpr std::int32_t kFormatVersion = 0;
constexpr std::uint32_t kValueBytes = sizeof(float);

Error differs(const char* what, std::uint64_t expected, std::uint64_t found) {
  return Error{Errc::kData, fmt::format("expected {} {}, found {}", what, expected, found), ""};
}

}  // namespace

std::array<std::byte, kParameterFileHeaderBytes> parameter_file_header(std::uint64_t count) {
  std::array<std::byte, kParameterFileHeaderBytes> header{};
  store_le<std::int32_t>(header.data(), kFormatVersion);
  store_le<std::uint32_t>(header.data() + 4, kValueBytes);
  store_le<std::uint64_t>(header.data() + 8, count);
  return header;
}

Status check_parameter_file_header(std::span<const std::byte, kParameterFileHeaderBytes> header,
                                   std::uint64_t expected_count) {
  if (const auto version = load_le<std::uint32_t>(header.data()); version != kFormatVersion) {
    return differs("format version", kFormatVersion, version);
  }
  if (const auto bytes = load_le<std::uint32_t>(header.data() + 4); bytes != kValueBytes) {
    return differs("bytes of a value", kValueBytes, bytes);
  }
  if (const auto count = load_le<std::uint64_t>(header.data() + 8); count != expected_count) {
    return differs("element count", expected_count, count);
  }
  return {};
}

Result<std::vector<float>> read_v010_parameter(const std::string& path,
                                               std::uint64_t expected_count) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return system_error(Errc::kData, "open " + path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(Errc::kData, "stat " + path);
  if (!S_ISREG(info.st_mode)) return Error{Errc::kData, path + ": not a regular file", ""};
  const auto found_bytes = static_cast<std::uint64_t>(info.st_size);
  if (found_bytes < kParameterFileHeaderBytes) {
    return differs("bytes, at least", kParameterFileHeaderBytes, found_bytes).with(path);
  }
  std::array<std::byte, kParameterFileHeaderBytes> header{};
  if (auto read = read_exact(fd.get(), header, TimePoint::max()); !read) {
    return std::move(read).error().with(path);
  }
  if (auto checked = check_parameter_file_header(header, expected_count); !checked) {
    return std::move(checked).error().with(path);
  }
  // The division cannot overflow, and the memory allocated below is no larger than the file.
  const std::uint64_t value_bytes = found_bytes - kParameterFileHeaderBytes;
  if (value_bytes % kValueBytes != 0 || value_bytes / kValueBytes != expected_count) {
    return differs("bytes of values", expected_count * kValueBytes, value_bytes).with(path);
  }
  std::vector<float> values(expected_count);
  if (auto read = read_exact(fd.get(), std::as_writable_bytes(std::span(values)), TimePoint::max());
      !read) {
    return std::move(read).error().with(path);
  }
  return values;
}

}  // namespace paddle::snapshot
