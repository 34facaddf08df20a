#include "engine/snapshot/verify.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/text.h"
#include "engine/snapshot/reader.h"
#include "engine/snapshot/retention.h"

namespace paddle::snapshot {
namespace {

// kData if a row occurs twice: one of the two would be lost.
Status read_rows(const SnapshotReader& reader, const std::string& table) {
  std::vector<std::uint64_t> ids;
  PADDLE_TRY_STATUS(reader.read_rows(table, [&ids](const table::Row& row) -> Status {
    ids.push_back(row.id);
    return {};
  }));
  std::ranges::sort(ids);
  const auto twice = std::ranges::adjacent_find(ids);
  if (twice == ids.end()) return {};
  return Error{Errc::kData, fmt::format("table '{}' has row {} more than once", table, *twice)};
}

Status read_all(const SnapshotReader& reader) {
  for (const wire::ParameterSpec& spec : reader.parameters()) {
    std::vector<float> value;
    std::vector<float> state;
    std::uint64_t update_count = 0;
    PADDLE_TRY_STATUS(spec.sparse() ? read_rows(reader, spec.name())
                                    : reader.read_dense(spec.name(), value, state, update_count));
  }
  return {};
}

// The fault of the file `done`: "paddle version: 0.11.0 real byte size: 4", with any version.
std::string fault_of_done(const std::string& directory, FileSystem& files) {
  constexpr std::string_view kBegin = "paddle version: ", kEnd = " real byte size: 4\n";
  constexpr std::string_view kVersion = "0123456789abcdefghijklmnopqrstuvwxyz.+-";
  constexpr std::size_t kBytesMax = 256;
  const std::string path = directory + "/done";
  const auto text = files.read_file(path, kBytesMax);
  if (text && text->starts_with(kBegin) && text->ends_with(kEnd) &&
      text->find_first_not_of(kVersion, kBegin.size()) == text->size() - kEnd.size()) {
    return "";
  }
  return fmt::format("{} is {}: the loaders of v0.10 need it; paddle and --resume do not", path,
                     files.exists(path) ? "damaged" : "missing");
}

}  // namespace

Verdict verify(const std::string& directory, FileSystem& files) {
  Verdict verdict;
  verdict.directory = directory;
  auto reader = SnapshotReader::open(directory, files);
  if (!reader) {
    verdict.error = std::move(reader).error();
    return verdict;
  }
  if (Status read = read_all(*reader); !read) {
    verdict.error = std::move(read).error();
    return verdict;
  }
  verdict.warning = fault_of_done(directory, files);
  const Manifest& manifest = reader->manifest();
  verdict.id = to_hex(manifest.id);
  verdict.passes = manifest.info.pass;
  verdict.step = manifest.info.step;
  for (const FileEntry& file : manifest.files()) {
    ++verdict.files;
    verdict.bytes += file.size;
  }
  return verdict;
}

Result<std::vector<Verdict>> verify_all(const std::string& directory) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(directory + "/MANIFEST", ignored))) {
    return std::vector<Verdict>{verify(directory)};
  }
  PADDLE_TRY(const std::vector<std::string> names, snapshot_names(directory));
  if (names.empty()) {
    return Error{Errc::kData, fmt::format("{} is not a snapshot and contains none", directory),
                 "name a pass-0000N folder, or the --save_dir that they are in"};
  }
  std::vector<Verdict> verdicts;
  verdicts.reserve(names.size());
  for (const std::string& name : names)
    verdicts.push_back(verify(fmt::format("{}/{}", directory, name)));
  return verdicts;
}

}  // namespace paddle::snapshot
