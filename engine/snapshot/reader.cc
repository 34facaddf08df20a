#include "engine/snapshot/reader.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/text.h"
#include "engine/parameter/parameter_set.h"
#include "engine/parameter/row_notes.h"

namespace paddle::snapshot {
namespace {

constexpr std::uint64_t kDeltaPassesMax = 1U << 20U;
constexpr std::size_t kRowHeadBytes = 2 * sizeof(std::uint64_t);

Result<std::vector<float>> read_value(int root, const FileEntry& entry, std::uint64_t count) {
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
  return values;
}

// Calls on_row for the rows of one file and adds their number to `rows`.
Status read_rows_file(int root, const FileEntry& entry, const ManifestParameter& table,
                      const std::function<Status(SparseRow&)>& on_row, std::uint64_t& rows) {
  const std::uint64_t width = parameter::row_width(table.spec);
  const bool has_scores = table.spec.table().has_shrink();
  PADDLE_TRY(BlockReader file, BlockReader::open(root, entry,
                                                 {.kind = BlockKind::kRows,
                                                  .width = width,
                                                  .state_width = table.state_width,
                                                  .has_scores = has_scores}));
  const std::uint64_t row_bytes = kRowHeadBytes + width * (1 + table.state_width) * sizeof(float) +
                                  (has_scores ? sizeof(parameter::RowScore) : 0);
  if (file.bytes_left() % row_bytes != 0) {
    return file.error(fmt::format("expected whole rows of {} bytes, found {} bytes", row_bytes,
                                  file.bytes_left()));
  }
  if (file.bytes_left() == 0) return file.finish();
  SparseRow row;
  row.value.resize(width);
  row.state.resize(width * table.state_width);
  while (file.bytes_left() > 0) {
    std::byte head[kRowHeadBytes];
    PADDLE_TRY_STATUS(file.read(head));
    row.id = load_le<std::uint64_t>(head);
    row.marks = load_le<std::uint64_t>(head + sizeof(std::uint64_t));
    PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(row.value))));
    PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(row.state))));
    if (has_scores) {
      PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(&row.score, 1))));
    }
    ++rows;
    PADDLE_TRY_STATUS(on_row(row));
  }
  return file.finish();
}

Result<std::vector<float>> read_state(int root, const ManifestParameter& parameter,
                                      std::uint64_t elements, std::uint64_t& update_count) {
  PADDLE_TRY(BlockReader file, BlockReader::open(root, parameter.files[1],
                                                 {.kind = BlockKind::kState,
                                                  .width = elements,
                                                  .state_width = parameter.state_width}));
  const std::uint64_t count = elements * parameter.state_width;
  if (const std::uint64_t bytes = count * sizeof(float); file.bytes_left() != bytes) {
    return file.error(
        fmt::format("expected {} bytes of state, found {}", bytes, file.bytes_left()));
  }
  std::vector<float> state(count);
  PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(state))));
  PADDLE_TRY_STATUS(file.finish());
  update_count = file.update_count();
  return state;
}

Result<std::vector<std::uint64_t>> read_removed(int root, const ManifestParameter& table) {
  PADDLE_TRY(BlockReader file,
             BlockReader::open(root, table.files.back(), {.kind = BlockKind::kIds, .width = 1}));
  if (file.bytes_left() / sizeof(std::uint64_t) != table.removed ||
      file.bytes_left() % sizeof(std::uint64_t) != 0) {
    return file.error(
        fmt::format("expected {} ids, found {} bytes", table.removed, file.bytes_left()));
  }
  std::vector<std::uint64_t> ids(table.removed);
  PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(ids))));
  PADDLE_TRY_STATUS(file.finish());
  return ids;
}

}  // namespace

Result<SnapshotReader> SnapshotReader::open(const std::string& directory) {
  PADDLE_TRY(SnapshotReader reader, read_manifest(directory));
  for (const ManifestParameter& parameter : reader.manifest_.parameters) {
    PADDLE_TRY_STATUS(reader.verify(parameter));
  }
  if (reader.manifest_.info.base) PADDLE_TRY_STATUS(reader.open_base());
  return reader;
}

Result<SnapshotReader> SnapshotReader::read_manifest(const std::string& directory) {
  SnapshotReader reader(directory);
  reader.root_ = UniqueFd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!reader.root_) return system_error(Errc::kData, "open " + directory);
  auto text = read_file(directory + "/MANIFEST", kManifestBytesMax);
  if (!text) {
    Error error = std::move(text).error();
    error.hint = "a directory without MANIFEST is not a complete snapshot";
    return error;
  }
  reader.manifest_crc_ = crc32c(as_bytes(*text));
  PADDLE_TRY(reader.manifest_, reader.named(decode_manifest(*text)));
  return reader;
}

Status SnapshotReader::open_base() {
  const SnapshotInfo& info = manifest_.info;
  const BaseSnapshot& expected = *info.base;
  const std::string beside =
      std::filesystem::path(directory_ + "/").parent_path().parent_path() / expected.name;
  auto opened = read_manifest(beside);
  if (!opened) {
    Error error = std::move(opened).error().with(fmt::format("the base of {}", directory_));
    error.hint = "a delta snapshot needs the full one that it goes on from beside it";
    return error;
  }
  base_ = std::make_unique<SnapshotReader>(*std::move(opened));
  const SnapshotInfo& before = base_->manifest_.info;
  if (base_->manifest_crc_ != expected.crc || before.base || before.pass > info.pass ||
      info.pass - before.pass > kDeltaPassesMax) {
    return base_->error(
        fmt::format("MANIFEST: expected CRC32C {:08x} of the base of {}, found {:08x}",
                    expected.crc, directory_, base_->manifest_crc_),
        "another snapshot has taken the place of the one that the delta goes on from");
  }
  for (const ManifestParameter& table : manifest_.parameters) {
    if (!table.spec.sparse()) continue;
    PADDLE_TRY(const ManifestParameter* const of_base, base_->find(table.spec.name(), true));
    if (parameter::row_width(of_base->spec) != parameter::row_width(table.spec) ||
        of_base->state_width != table.state_width ||
        of_base->spec.table().has_shrink() != table.spec.table().has_shrink()) {
      return base_->error(
          fmt::format("table '{}' is of another shape than in {}", table.spec.name(), directory_));
    }
    PADDLE_TRY_STATUS(base_->verify(*of_base));
  }
  return {};
}

Status SnapshotReader::verify(const ManifestParameter& parameter) const {
  for (const FileEntry& file : parameter.files) {
    PADDLE_TRY_STATUS(named(verify_file(root_.get(), file)));
  }
  return {};
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
  const std::uint64_t count = parameter::element_count(parameter->spec);
  PADDLE_TRY(auto values, named(read_value(root_.get(), parameter->files[0], count)));
  PADDLE_TRY(state, named(read_state(root_.get(), *parameter, count, update_count)));
  value = std::move(values);
  return {};
}

Status SnapshotReader::read_rows(const std::string& name,
                                 const std::function<Status(const SparseRow&)>& on_row) const {
  PADDLE_TRY(const ManifestParameter* const table, find(name, true));
  if (base_) PADDLE_TRY_STATUS(read_base_rows(*table, on_row));
  return read_own_rows(*table, on_row);
}

Status SnapshotReader::read_own_rows(const ManifestParameter& table, const OnRow& on_row) const {
  std::uint64_t rows = 0;
  for (const FileEntry& entry : table.files) {
    if (entry.name == removed_file_name(table.spec.name())) continue;
    PADDLE_TRY_STATUS(named(read_rows_file(root_.get(), entry, table, on_row, rows)));
  }
  if (rows == table.rows) return {};
  return error(
      fmt::format("{}: expected {} rows, found {}", table.files.front().name, table.rows, rows));
}

// Reads the rows of the base, aged to the delta's pass, except those that the delta replaces.
Status SnapshotReader::read_base_rows(const ManifestParameter& table, const OnRow& on_row) const {
  PADDLE_TRY(std::vector<std::uint64_t> replaced, named(read_removed(root_.get(), table)));
  PADDLE_TRY_STATUS(read_own_rows(table, [&](const SparseRow& row) -> Status {
    replaced.push_back(row.id);
    return {};
  }));
  std::sort(replaced.begin(), replaced.end());
  PADDLE_TRY(const ManifestParameter* const before, base_->find(table.spec.name(), true));
  const std::uint64_t passes = manifest_.info.pass - base_->manifest_.info.pass;
  const float decay = table.spec.table().shrink().decay();
  return base_->read_own_rows(*before, [&](SparseRow& row) -> Status {
    parameter::RowMarks marks = parameter::RowMarks::unpack(row.marks);
    if (marks.sightings > 0) return {};
    if (std::binary_search(replaced.begin(), replaced.end(), row.id)) return {};
    marks.passes_unseen = static_cast<std::uint16_t>(
        std::min<std::uint64_t>(marks.passes_unseen + passes, UINT16_MAX));
    row.marks = marks.pack();
    const std::uint64_t decays = decay == 1 ? 0 : passes;
    for (std::uint64_t pass = 0; pass < decays && !row.score.is_zero(); ++pass) {
      row.score.decay(decay);
    }
    return on_row(row);
  });
}

Result<BaseSnapshot> base_of(const std::string& directory) {
  PADDLE_TRY(const std::string text, read_file(directory + "/MANIFEST", kManifestBytesMax));
  PADDLE_TRY(const Manifest manifest, decode_manifest(text));
  if (manifest.info.base) {
    return Error{Errc::kData, directory + ": is a delta itself, and no base of another"};
  }
  return BaseSnapshot{std::filesystem::path(directory + "/").parent_path().filename(),
                      crc32c(as_bytes(text))};
}

}  // namespace paddle::snapshot
