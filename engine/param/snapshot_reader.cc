#include <fcntl.h>

#include <fmt/format.h>

#include "engine/base/text.h"
#include "engine/param/manifest.h"
#include "engine/param/optimizer.h"
#include "engine/param/parameter_set.h"
#include "engine/param/snapshot.h"

namespace paddle::param {
namespace {

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

// Rows of one file; `rows` counts them on.
Status read_rows_file(int root, const FileEntry& entry, const ManifestParameter& table,
                      const std::function<Status(const SparseRow&)>& on_row, std::uint64_t& rows) {
  const std::uint64_t width = row_width(table.spec);
  PADDLE_TRY(BlockReader file, BlockReader::open(root, entry,
                                                 {.kind = BlockKind::kRows,
                                                  .width = width,
                                                  .state_width = table.state_width,
                                                  .update_count = 0}));
  const std::uint64_t row_bytes = kRowHeadBytes + width * (1 + table.state_width) * sizeof(float);
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
};

SnapshotReader::SnapshotReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SnapshotReader::SnapshotReader(SnapshotReader&&) noexcept = default;
SnapshotReader& SnapshotReader::operator=(SnapshotReader&&) noexcept = default;
SnapshotReader::~SnapshotReader() = default;

Result<SnapshotReader> SnapshotReader::open(const std::string& directory) {
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
  auto manifest = decode_manifest(*text);
  if (!manifest) return impl->in_directory(std::move(manifest).error());
  impl->manifest = *std::move(manifest);
  for (const ManifestParameter& parameter : impl->manifest.parameters) {
    for (const FileEntry& file : parameter.files) {
      if (auto verified = verify_file(impl->root.get(), file); !verified) {
        return impl->in_directory(std::move(verified).error());
      }
    }
  }
  return SnapshotReader(std::move(impl));
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
  const std::uint64_t count = element_count(parameter->spec);
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
  std::uint64_t rows = 0;
  for (const FileEntry& entry : table->files) {
    if (auto read = read_rows_file(impl_->root.get(), entry, *table, on_row, rows); !read) {
      return impl_->in_directory(std::move(read).error());
    }
  }
  if (rows != table->rows) {
    return impl_->in_directory({Errc::kData,
                                fmt::format("{}: expected {} rows, found {}",
                                            table->files.front().name, table->rows, rows),
                                ""});
  }
  return {};
}

}  // namespace paddle::param
