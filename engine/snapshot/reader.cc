#include "engine/snapshot/reader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/control_group.h"
#include "base/pool.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/math/update_kernels.h"
#include "engine/snapshot/format.h"
#include "engine/table/parameter_set.h"

namespace paddle::snapshot {
namespace {

// Files of one parameter: their verification, and readers of their content. Errors are kData and
// name the file.

constexpr std::size_t kVerifyThreadsMax = 4;
constexpr std::uint64_t kVerifyAloneBytes = 8U << 20U;  // fewer bytes are not worth a thread
constexpr std::size_t kRowsReadBytes = 64U << 10U;      // rows read at once

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A number that is not finite cannot come from training: pushes that would make one are refused.
template <class File>
Status check_finite(const File& file, std::span<const float> values, std::string_view what) {
  if (optim::all_below(values, kInfinity)) return {};
  const auto bad =
      std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
  return file.error(
      fmt::format("{} {} is {}, not a finite number", what, bad - values.begin(), *bad));
}

Status check_row(const BlockReader& file, const table::RowForm& form, const std::byte* from) {
  if (optim::all_below(form.floats_at(from), kInfinity)) return {};
  const table::Row row = form.read(from);
  const std::array<float, 2> score{row.score.shows, row.score.clicks};
  const std::string of_row = fmt::format("row {}, ", row.id);
  PADDLE_TRY_STATUS(check_finite(file, row.value, of_row + "value"));
  PADDLE_TRY_STATUS(check_finite(file, row.state, of_row + "state"));
  return check_finite(file, score, of_row + "score");
}

table::RowForm form_of(const BlockHeader& header) {
  return {header.width, header.state_width, header.has_scores};
}

// The most bytes that a file may have, without its header and checksums.
std::uint64_t body_bytes_max(const ManifestParameter& parameter, const BlockHeader& header,
                             const std::string& file) {
  switch (header.kind) {
    case BlockKind::kState:
      return header.width * sizeof(float) *
             (file == parameter.spec.name() ? 1 : header.state_width);
    case BlockKind::kRows:
      return parameter.rows == 0 ? 0 : kRowsFileBytesMax + form_of(header).bytes();
    case BlockKind::kIds:
      return parameter.removed * sizeof(std::uint64_t);
  }
  return 0;
}

// The header is checked first: it may show that the file belongs to another snapshot.
Status verify_one(const Directory& root, const SnapshotId& snapshot,
                  const ManifestParameter& parameter, FileEntry& file) {
  std::uint64_t body = file.size - std::min<std::uint64_t>(file.size, kParameterFileHeaderBytes);
  const BlockHeader header = block_header(snapshot, parameter, file.name);
  if (file.name != parameter.spec.name()) {
    PADDLE_TRY(const BlockReader opened, BlockReader::open(root, file, header));
    body = opened.bytes_left();
  }
  // A sparse file may be huge without using the disk, and would take hours to read.
  if (const std::uint64_t most = body_bytes_max(parameter, header, file.name); body > most) {
    return Error{Errc::kData, fmt::format("{}: expected at most {} bytes of values, found {}",
                                          file.name, most, body)};
  }
  return verify_file(root, file);
}

// Verifies the files of the parameters, several at a time, and stores their CRC32C, which later
// reads check. Returns the error of the first damaged file in the order of MANIFEST.
Status verify_files(const Directory& root, const SnapshotId& snapshot,
                    std::span<ManifestParameter* const> parameters) {
  struct Part {
    const ManifestParameter* parameter = nullptr;
    FileEntry* file = nullptr;
    Status outcome;
  };
  std::vector<Part> parts;
  std::uint64_t bytes = 0;
  for (ManifestParameter* const parameter : parameters) {
    for (FileEntry& file : parameter->files) {
      parts.push_back({parameter, &file, {}});
      bytes += file.size;
    }
  }
  std::atomic<std::size_t> damaged = parts.size();  // files after this one need no outcome
  const auto verify_part = [&](std::size_t i) {
    if (i > damaged) return;
    Part& part = parts[i];
    part.outcome = verify_one(root, snapshot, *part.parameter, *part.file);
    if (!part.outcome) damaged = i;
  };
  const std::size_t cores = usable_cores();
  for_each_parallel(parts.size(), verify_part,
                    bytes < kVerifyAloneBytes ? 1 : std::min(cores, kVerifyThreadsMax));
  for (Part& part : parts) PADDLE_TRY_STATUS(std::move(part.outcome));
  return {};
}

Result<std::vector<float>> read_value(const Directory& root, const FileEntry& entry,
                                      std::uint64_t count) {
  PADDLE_TRY(FileReader file, FileReader::open(root, entry));
  std::array<std::byte, kParameterFileHeaderBytes> header{};
  PADDLE_TRY_STATUS(file.read(header));
  if (auto checked = check_parameter_file_header(header, count); !checked) {
    return file.error(checked.error().message);
  }
  if (file.bytes_left() != count * sizeof(float)) {
    return file.error(fmt::format("expected {} bytes of values, found {}", count * sizeof(float),
                                  file.bytes_left()));
  }
  std::vector<float> values(count);
  PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(values))));
  PADDLE_TRY_STATUS(file.finish());
  PADDLE_TRY_STATUS(check_finite(file, values, "value"));
  return values;
}

// Calls on_row for the rows of one file and adds the number of these rows to `count`.
Status read_rows_file(const Directory& root, const FileEntry& entry, const BlockHeader& header,
                      const std::function<Status(table::Row&)>& on_row, std::uint64_t& count) {
  const table::RowForm form = form_of(header);
  PADDLE_TRY(BlockReader file, BlockReader::open(root, entry, header));
  if (file.bytes_left() % form.bytes() != 0) {
    return file.error(fmt::format("expected whole rows of {} bytes, found {} bytes", form.bytes(),
                                  file.bytes_left()));
  }
  const std::uint64_t most = std::max<std::uint64_t>(1, kRowsReadBytes / form.bytes());
  Bytes rows;
  while (file.bytes_left() > 0) {
    rows.resize(std::min(file.bytes_left(), most * form.bytes()));
    PADDLE_TRY_STATUS(file.read(rows));
    for (const std::byte* at = rows.data(); at < rows.data() + rows.size(); at += form.bytes()) {
      PADDLE_TRY_STATUS(check_row(file, form, at));
      table::Row row = form.read(at);
      ++count;
      PADDLE_TRY_STATUS(on_row(row));
    }
  }
  return file.finish();
}

Result<std::vector<float>> read_state(const Directory& root, const FileEntry& entry,
                                      const BlockHeader& header, std::uint64_t& update_count) {
  PADDLE_TRY(BlockReader file, BlockReader::open(root, entry, header));
  const std::uint64_t count = header.width * header.state_width;
  if (const std::uint64_t bytes = count * sizeof(float); file.bytes_left() != bytes) {
    return file.error(
        fmt::format("expected {} bytes of state, found {}", bytes, file.bytes_left()));
  }
  if (file.update_count() > parameter::kCounterMax) {
    return file.error(fmt::format("{} updates exceed the limit", file.update_count()));
  }
  std::vector<float> state(count);
  PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(state))));
  PADDLE_TRY_STATUS(file.finish());
  PADDLE_TRY_STATUS(check_finite(file, state, "state"));
  update_count = file.update_count();
  return state;
}

Result<std::vector<std::uint64_t>> read_removed(const Directory& root, const FileEntry& entry,
                                                const BlockHeader& header, std::uint64_t count) {
  PADDLE_TRY(BlockReader file, BlockReader::open(root, entry, header));
  if (file.bytes_left() / sizeof(std::uint64_t) != count ||
      file.bytes_left() % sizeof(std::uint64_t) != 0) {
    return file.error(fmt::format("expected {} ids, found {} bytes", count, file.bytes_left()));
  }
  std::vector<std::uint64_t> ids(count);
  PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(ids))));
  PADDLE_TRY_STATUS(file.finish());
  return ids;
}

// The snapshot.

constexpr std::uint64_t kDeltaPassesMax = 4096;  // the decay of each pass is computed

Result<std::string> read_manifest_text(FileSystem& files, const std::string& directory) {
  auto text = files.read_file(directory + "/MANIFEST", kManifestBytesMax);
  if (text) return text;
  Error error = std::move(text).error();
  error.hint = "a directory without MANIFEST is not a complete snapshot";
  return error;
}

BaseSnapshot identity_of(const std::string& directory, const std::string& manifest) {
  return {std::filesystem::path(directory + "/").parent_path().filename(),
          sha256_of(as_bytes(manifest))};
}

}  // namespace

Result<SnapshotReader> SnapshotReader::open(const std::string& directory, FileSystem& files) {
  PADDLE_TRY(SnapshotReader reader, open_own(directory, files));
  if (reader.manifest_.info.base) PADDLE_TRY_STATUS(reader.open_base());
  return reader;
}

Status SnapshotReader::check(const std::string& directory, FileSystem& files) {
  PADDLE_TRY_STATUS(open_own(directory, files));
  return {};
}

Result<SnapshotReader> SnapshotReader::open_own(const std::string& directory, FileSystem& files) {
  PADDLE_TRY(SnapshotReader reader, read_manifest(directory, files));
  for (FileEntry& file : reader.manifest_.model)
    PADDLE_TRY_STATUS(reader.named(verify_file(*reader.root_, file)));
  PADDLE_TRY_STATUS(reader.verify([](const ManifestParameter&) { return true; }));
  return reader;
}

Result<SnapshotReader> SnapshotReader::read_manifest(const std::string& directory,
                                                     FileSystem& files) {
  SnapshotReader reader(directory, files);
  auto root = files.open_directory(directory);
  if (!root) return Error{Errc::kData, root.error().message};
  reader.root_ = *std::move(root);
  PADDLE_TRY(const std::string text, read_manifest_text(files, directory));
  reader.identity_ = identity_of(directory, text);
  PADDLE_TRY(reader.manifest_, reader.named(decode_manifest(text)));
  return reader;
}

Status SnapshotReader::open_base() {
  const SnapshotInfo& info = manifest_.info;
  const BaseSnapshot& expected = *info.base;
  const std::string beside =
      std::filesystem::path(directory_ + "/").parent_path().parent_path() / expected.name;
  auto opened = read_manifest(beside, *files_);
  if (!opened) {
    Error error = std::move(opened).error().with(fmt::format("the base of {}", directory_));
    if (error.code != Errc::kVersion)
      error.hint = "a delta snapshot needs its full snapshot in the same folder";
    return error;
  }
  base_ = std::make_unique<SnapshotReader>(*std::move(opened));
  const SnapshotInfo& before = base_->manifest_.info;
  if (base_->identity_ != expected || before.base || before.pass > info.pass ||
      info.pass - before.pass > kDeltaPassesMax) {
    return base_->error(fmt::format("MANIFEST: it is not that of the base of {}", directory_),
                        "another snapshot has replaced the one that the delta is based on");
  }
  for (const ManifestParameter& table : manifest_.parameters) {
    if (!table.spec.sparse()) continue;
    PADDLE_TRY(const ManifestParameter* const of_base, base_->find(table.spec.name(), true));
    if (parameter::row_width(of_base->spec) != parameter::row_width(table.spec) ||
        of_base->state_width != table.state_width ||
        of_base->spec.table().has_shrink() != table.spec.table().has_shrink()) {
      return base_->error(
          fmt::format("table '{}' has another shape than in {}", table.spec.name(), directory_));
    }
  }
  return base_->verify([this](const ManifestParameter& of_base) {
    return static_cast<bool>(find(of_base.spec.name(), true));
  });
}

Status SnapshotReader::verify(const std::function<bool(const ManifestParameter&)>& wanted) {
  std::vector<ManifestParameter*> parameters;
  for (ManifestParameter& parameter : manifest_.parameters) {
    if (wanted(parameter)) parameters.push_back(&parameter);
  }
  return named(verify_files(*root_, manifest_.id, parameters));
}

Result<std::optional<std::string>> SnapshotReader::read_model_file(const std::string& name) const {
  const auto file = std::ranges::find(manifest_.model, name, &FileEntry::name);
  if (file == manifest_.model.end()) return std::optional<std::string>();
  PADDLE_TRY(FileReader reader, named(FileReader::open(*root_, *file)));
  std::string content(file->size, '\0');
  PADDLE_TRY_STATUS(named(reader.read(std::as_writable_bytes(std::span(content)))));
  PADDLE_TRY_STATUS(named(reader.finish()));
  return std::optional<std::string>(std::move(content));
}

Result<const ManifestParameter*> SnapshotReader::find(const std::string& name, bool sparse) const {
  for (const ManifestParameter& parameter : manifest_.parameters) {
    if (parameter.spec.name() == name && parameter.spec.sparse() == sparse) return &parameter;
  }
  return error(fmt::format("no {} parameter '{}' in the MANIFEST", sparse ? "sparse" : "dense",
                           escape_control(name)));
}

std::vector<wire::ParameterSpec> SnapshotReader::parameters() const {
  std::vector<wire::ParameterSpec> specs;
  for (const ManifestParameter& parameter : manifest_.parameters) specs.push_back(parameter.spec);
  return specs;
}

Status SnapshotReader::read_dense(const std::string& name, std::vector<float>& value,
                                  std::vector<float>& state, std::uint64_t& update_count) const {
  PADDLE_TRY(const ManifestParameter* const parameter, find(name, false));
  PADDLE_TRY(value, read_dense_value(name));
  const FileEntry& file = parameter->files[1];
  const BlockHeader header = block_header(manifest_.id, *parameter, file.name);
  PADDLE_TRY(state, named(read_state(*root_, file, header, update_count)));
  return {};
}

Result<std::vector<float>> SnapshotReader::read_dense_value(const std::string& name) const {
  PADDLE_TRY(const ManifestParameter* const parameter, find(name, false));
  return named(read_value(*root_, parameter->files[0], parameter::element_count(parameter->spec)));
}

Status SnapshotReader::read_rows(const std::string& name,
                                 const std::function<Status(const table::Row&)>& on_row) const {
  PADDLE_TRY(const ManifestParameter* const table, find(name, true));
  if (base_) PADDLE_TRY_STATUS(read_base_rows(*table, on_row));
  return read_own_rows(*table, on_row);
}

Status SnapshotReader::read_own_rows(const ManifestParameter& table, const OnRow& on_row) const {
  std::uint64_t rows = 0;
  for (const FileEntry& entry : table.files) {
    if (entry.name == removed_file_name(table.spec.name())) continue;
    const BlockHeader header = block_header(manifest_.id, table, entry.name);
    PADDLE_TRY_STATUS(named(read_rows_file(*root_, entry, header, on_row, rows)));
  }
  if (rows == table.rows) return {};
  return error(
      fmt::format("{}: expected {} rows, found {}", table.files.front().name, table.rows, rows));
}

// Reads the rows of the base, aged to the delta's pass, except for those that the delta replaces.
Status SnapshotReader::read_base_rows(const ManifestParameter& table, const OnRow& on_row) const {
  const FileEntry& removed = table.files.back();
  const BlockHeader header = block_header(manifest_.id, table, removed.name);
  PADDLE_TRY(std::vector<std::uint64_t> replaced,
             named(read_removed(*root_, removed, header, table.removed)));
  PADDLE_TRY_STATUS(read_own_rows(table, [&](const table::Row& row) -> Status {
    replaced.push_back(row.id);
    return {};
  }));
  std::sort(replaced.begin(), replaced.end());
  PADDLE_TRY(const ManifestParameter* const before, base_->find(table.spec.name(), true));
  const std::uint64_t passes = manifest_.info.pass - base_->manifest_.info.pass;
  const float decay = table.spec.table().shrink().decay();
  return base_->read_own_rows(*before, [&](table::Row& row) -> Status {
    if (row.marks.sightings > 0) return {};
    if (std::binary_search(replaced.begin(), replaced.end(), row.id)) return {};
    row.marks.passes_unseen = static_cast<std::uint16_t>(
        std::min<std::uint64_t>(row.marks.passes_unseen + passes, UINT16_MAX));
    const std::uint64_t decays = decay == 1 ? 0 : passes;
    for (std::uint64_t pass = 0; pass < decays && !row.score.is_zero(); ++pass)
      row.score.decay(decay);
    return on_row(row);
  });
}

Result<BaseSnapshot> base_of(const std::string& directory, FileSystem& files) {
  PADDLE_TRY(const std::string text, read_manifest_text(files, directory));
  PADDLE_TRY(const Manifest manifest, decode_manifest(text));
  if (manifest.info.base) {
    return Error{Errc::kData, directory + ": is a delta itself, and cannot be the base of another"};
  }
  return identity_of(directory, text);
}

}  // namespace paddle::snapshot
