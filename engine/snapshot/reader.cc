#include "engine/snapshot/reader.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/parameter/parameter_set.h"
#include "engine/parameter/row_notes.h"
#include "engine/snapshot/parameter_file.h"

namespace paddle::snapshot {
namespace {

constexpr std::uint64_t kDeltaPassesMax = 4096;  // the decay of each is computed

Result<std::string> read_manifest_text(FileSystem& files, const std::string& directory) {
  auto text = files.read_file(directory + "/MANIFEST", kManifestBytesMax);
  if (text) return text;
  Error error = std::move(text).error();
  error.hint = "a directory without MANIFEST is not a complete snapshot";
  return error;
}

BaseSnapshot identity_of(const std::string& directory, const std::string& manifest) {
  return {std::filesystem::path(directory + "/").parent_path().filename(),
          sha256_of(as_bytes(manifest)), crc32c(as_bytes(manifest))};
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

bool SnapshotReader::is_base(const BaseSnapshot& expected) const {
  return expected.sha256 ? identity_.sha256 == expected.sha256 : identity_.crc == expected.crc;
}

Status SnapshotReader::open_base() {
  const SnapshotInfo& info = manifest_.info;
  const BaseSnapshot& expected = *info.base;
  const std::string beside =
      std::filesystem::path(directory_ + "/").parent_path().parent_path() / expected.name;
  auto opened = read_manifest(beside, *files_);
  if (!opened) {
    Error error = std::move(opened).error().with(fmt::format("the base of {}", directory_));
    error.hint = "a delta snapshot needs the full one that it goes on from beside it";
    return error;
  }
  base_ = std::make_unique<SnapshotReader>(*std::move(opened));
  const SnapshotInfo& before = base_->manifest_.info;
  if (!base_->is_base(expected) || before.base || before.pass > info.pass ||
      info.pass - before.pass > kDeltaPassesMax) {
    return base_->error(
        fmt::format("MANIFEST: not the one of the base of {}", directory_),
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
                                 const std::function<Status(const SparseRow&)>& on_row) const {
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

// Reads the rows of the base, aged to the delta's pass, except those that the delta replaces.
Status SnapshotReader::read_base_rows(const ManifestParameter& table, const OnRow& on_row) const {
  const FileEntry& removed = table.files.back();
  const BlockHeader header = block_header(manifest_.id, table, removed.name);
  PADDLE_TRY(std::vector<std::uint64_t> replaced,
             named(read_removed(*root_, removed, header, table.removed)));
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
    for (std::uint64_t pass = 0; pass < decays && !row.score.is_zero(); ++pass)
      row.score.decay(decay);
    return on_row(row);
  });
}

Result<BaseSnapshot> base_of(const std::string& directory, FileSystem& files) {
  PADDLE_TRY(const std::string text, read_manifest_text(files, directory));
  PADDLE_TRY(const Manifest manifest, decode_manifest(text));
  if (manifest.info.base) {
    return Error{Errc::kData, directory + ": is a delta itself, and no base of another"};
  }
  return identity_of(directory, text);
}

}  // namespace paddle::snapshot
