#include "engine/snapshot/reader.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/text.h"
#include "engine/optim/optimizer.h"
#include "engine/parameter/parameter_set.h"
#include "engine/parameter/row_marks.h"
#include "engine/snapshot/manifest_format.h"
#include "engine/snapshot/parameter_file.h"

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

using OnRow = std::function<Status(SparseRow&)>;

// Calls on_row for the rows of one file and adds their number to `rows`.
Status read_rows_file(int root, const FileEntry& entry, const ManifestParameter& table,
                      const OnRow& on_row, std::uint64_t& rows) {
  const std::uint64_t width = parameter::row_width(table.spec);
  const bool has_scores = table.spec.table().has_shrink();
  PADDLE_TRY(BlockReader file, BlockReader::open(root, entry,
                                                 {.kind = BlockKind::kRows,
                                                  .width = width,
                                                  .state_width = table.state_width,
                                                  .update_count = 0,
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

}  // namespace

struct SnapshotReader::Impl {
  std::string directory;
  UniqueFd root;
  Manifest manifest;
  std::uint32_t manifest_crc = 0;
  std::unique_ptr<Impl> base;  // of a delta

  Error in_directory(Error error) const { return std::move(error).with(directory); }

  Result<const ManifestParameter*> find(const std::string& name, bool sparse) const {
    for (const ManifestParameter& parameter : manifest.parameters) {
      if (parameter.spec.name() == name && parameter.spec.sparse() == sparse) return &parameter;
    }
    return in_directory({Errc::kData,
                         fmt::format("no {} parameter '{}' in the MANIFEST",
                                     sparse ? "sparse" : "dense", escape_control(name)),
                         ""});
  }

  // Reads only MANIFEST.
  static Result<std::unique_ptr<Impl>> open(const std::string& directory);
  Status open_base();
  Status verify(const ManifestParameter& parameter) const;
  Status read_own_rows(const ManifestParameter& table, const OnRow& on_row) const;
  Result<std::vector<std::uint64_t>> read_removed(const ManifestParameter& table) const;
  Status read_base_rows(const ManifestParameter& table, const OnRow& on_row) const;
};

Result<std::unique_ptr<SnapshotReader::Impl>> SnapshotReader::Impl::open(
    const std::string& directory) {
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  impl->root = UniqueFd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!impl->root) return system_error(Errc::kData, "open " + directory);
  auto text = read_file(directory + "/MANIFEST", kManifestBytesMax);
  if (!text) {
    Error error = std::move(text).error();
    error.hint = "a directory without MANIFEST is not a complete snapshot";
    return error;
  }
  impl->manifest_crc = crc32c(as_bytes(*text));
  auto manifest = decode_manifest(*text);
  if (!manifest) return impl->in_directory(std::move(manifest).error());
  impl->manifest = *std::move(manifest);
  return impl;
}

Status SnapshotReader::Impl::open_base() {
  const BaseSnapshot& expected = *manifest.info.base;
  const std::string beside =
      std::filesystem::path(directory + "/").parent_path().parent_path() / expected.name;
  auto opened = open(beside);
  if (!opened) {
    Error error = std::move(opened).error().with(fmt::format("the base of {}", directory));
    error.hint = "a delta snapshot needs the full one that it goes on from beside it";
    return error;
  }
  base = *std::move(opened);
  if (base->manifest_crc != expected.crc || base->manifest.info.base ||
      base->manifest.info.pass > manifest.info.pass ||
      manifest.info.pass - base->manifest.info.pass > kDeltaPassesMax) {
    return base->in_directory(
        {Errc::kData,
         fmt::format("MANIFEST: expected CRC32C {:08x} of the base of {}, found {:08x}",
                     expected.crc, directory, base->manifest_crc),
         "another snapshot has taken the place of the one that the delta goes on from"});
  }
  for (const ManifestParameter& table : manifest.parameters) {
    if (!table.spec.sparse()) continue;
    PADDLE_TRY(const ManifestParameter* const before, base->find(table.spec.name(), true));
    if (parameter::row_width(before->spec) != parameter::row_width(table.spec) ||
        before->state_width != table.state_width ||
        before->spec.table().has_shrink() != table.spec.table().has_shrink()) {
      return base->in_directory(
          {Errc::kData,
           fmt::format("table '{}' is of another shape than in {}", table.spec.name(), directory),
           ""});
    }
    PADDLE_TRY_STATUS(base->verify(*before));
  }
  return {};
}

Status SnapshotReader::Impl::verify(const ManifestParameter& parameter) const {
  for (const FileEntry& file : parameter.files) {
    if (auto verified = verify_file(root.get(), file); !verified) {
      return in_directory(std::move(verified).error());
    }
  }
  return {};
}

Status SnapshotReader::Impl::read_own_rows(const ManifestParameter& table,
                                           const OnRow& on_row) const {
  std::uint64_t rows = 0;
  for (const FileEntry& entry : table.files) {
    if (entry.name == removed_file_name(table.spec.name())) continue;
    if (auto read = read_rows_file(root.get(), entry, table, on_row, rows); !read) {
      return in_directory(std::move(read).error());
    }
  }
  if (rows != table.rows) {
    return in_directory(
        {Errc::kData,
         fmt::format("{}: expected {} rows, found {}", table.files.front().name, table.rows, rows),
         ""});
  }
  return {};
}

Result<std::vector<std::uint64_t>> SnapshotReader::Impl::read_removed(
    const ManifestParameter& table) const {
  auto file =
      BlockReader::open(root.get(), table.files.back(), {.kind = BlockKind::kIds, .width = 1});
  if (!file) return in_directory(std::move(file).error());
  if (file->bytes_left() / sizeof(std::uint64_t) != table.removed ||
      file->bytes_left() % sizeof(std::uint64_t) != 0) {
    return in_directory(file->error(
        fmt::format("expected {} ids, found {} bytes", table.removed, file->bytes_left())));
  }
  std::vector<std::uint64_t> ids(table.removed);
  Status read = file->read(std::as_writable_bytes(std::span(ids)));
  if (read) read = file->finish();
  if (!read) return in_directory(std::move(read).error());
  return ids;
}

// Reads the rows of the base, aged to the delta's pass, except those that the delta replaces.
Status SnapshotReader::Impl::read_base_rows(const ManifestParameter& table,
                                            const OnRow& on_row) const {
  PADDLE_TRY(std::vector<std::uint64_t> replaced, read_removed(table));
  PADDLE_TRY_STATUS(read_own_rows(table, [&](const SparseRow& row) -> Status {
    replaced.push_back(row.id);
    return {};
  }));
  std::sort(replaced.begin(), replaced.end());
  PADDLE_TRY(const ManifestParameter* const before, base->find(table.spec.name(), true));
  const std::uint64_t passes = manifest.info.pass - base->manifest.info.pass;
  const float decay = table.spec.table().shrink().decay();
  return base->read_own_rows(*before, [&](SparseRow& row) -> Status {
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

SnapshotReader::SnapshotReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SnapshotReader::SnapshotReader(SnapshotReader&&) noexcept = default;
SnapshotReader& SnapshotReader::operator=(SnapshotReader&&) noexcept = default;
SnapshotReader::~SnapshotReader() = default;

Result<SnapshotReader> SnapshotReader::open(const std::string& directory) {
  PADDLE_TRY(auto impl, Impl::open(directory));
  for (const ManifestParameter& parameter : impl->manifest.parameters) {
    PADDLE_TRY_STATUS(impl->verify(parameter));
  }
  if (impl->manifest.info.base) PADDLE_TRY_STATUS(impl->open_base());
  return SnapshotReader(std::move(impl));
}

Result<BaseSnapshot> base_of(const std::string& directory) {
  PADDLE_TRY(const std::string text, read_file(directory + "/MANIFEST", kManifestBytesMax));
  PADDLE_TRY(const Manifest manifest, decode_manifest(text));
  if (manifest.info.base) {
    return Error{Errc::kData, directory + ": is a delta itself, and no base of another", ""};
  }
  return BaseSnapshot{std::filesystem::path(directory + "/").parent_path().filename(),
                      crc32c(as_bytes(text))};
}

const SnapshotInfo& SnapshotReader::info() const {
  return impl_->manifest.info;
}

std::vector<wire::ParameterSpec> SnapshotReader::parameters() const {
  std::vector<wire::ParameterSpec> specs;
  for (const ManifestParameter& parameter : impl_->manifest.parameters)
    specs.push_back(parameter.spec);
  return specs;
}

Status SnapshotReader::read_dense(const std::string& name, std::vector<float>& value,
                                  std::vector<float>& state, std::uint64_t& update_count) const {
  PADDLE_TRY(const ManifestParameter* const parameter, impl_->find(name, false));
  const int root = impl_->root.get();
  const std::uint64_t count = parameter::element_count(parameter->spec);
  auto values = read_value(root, parameter->files[0], count);
  if (!values) return impl_->in_directory(std::move(values).error());
  auto blocks = BlockReader::open(root, parameter->files[1],
                                  {.kind = BlockKind::kState,
                                   .width = count,
                                   .state_width = parameter->state_width,
                                   .update_count = 0});
  if (!blocks) return impl_->in_directory(std::move(blocks).error());
  if (const std::uint64_t bytes = count * parameter->state_width * sizeof(float);
      blocks->bytes_left() != bytes) {
    return impl_->in_directory(blocks->error(
        fmt::format("expected {} bytes of state, found {}", bytes, blocks->bytes_left())));
  }
  std::vector<float> states(count * parameter->state_width);
  Status read = blocks->read(std::as_writable_bytes(std::span(states)));
  if (read) read = blocks->finish();
  if (!read) return impl_->in_directory(std::move(read).error());
  value = *std::move(values);
  state = std::move(states);
  update_count = blocks->update_count();
  return {};
}

Status SnapshotReader::read_rows(const std::string& name,
                                 const std::function<Status(const SparseRow&)>& on_row) const {
  PADDLE_TRY(const ManifestParameter* const table, impl_->find(name, true));
  if (impl_->base) PADDLE_TRY_STATUS(impl_->read_base_rows(*table, on_row));
  return impl_->read_own_rows(*table, on_row);
}

}  // namespace paddle::snapshot
