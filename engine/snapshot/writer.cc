#include "engine/snapshot/writer.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include <fmt/format.h>

#include "base/version.h"
#include "engine/math/optimizer.h"
#include "engine/math/update_kernels.h"
#include "engine/snapshot/format.h"
#include "engine/snapshot/replacement.h"
#include "engine/table/parameter_set.h"
#include "engine/table/row_form.h"

namespace paddle::snapshot {
namespace {

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Refuses to replace what is perhaps no snapshot of ours: only an empty folder, or a snapshot whose
// MANIFEST can be read, may be replaced. A damaged one may contain the only good files.
Status check_replaceable(FileSystem& files, const std::string& directory) {
  const EntryKind kind = files.kind(directory);
  if (kind == EntryKind::kNone) return {};
  if (kind == EntryKind::kDirectory) {
    if (const auto names = files.list(directory); names && names->empty()) return {};
  }
  const auto manifest = files.read_file(directory + "/MANIFEST", kManifestBytesMax);
  if (kind != EntryKind::kDirectory || !manifest) {
    return Error{Errc::kUsage, directory + ": exists and is not a snapshot",
                 "choose another directory, or move it away"};
  }
  if (auto decoded = decode_manifest(*manifest); !decoded) {
    Error error = std::move(decoded).error().with(directory);
    error.message += "; so it is not replaced";
    error.hint = "move it away, or save to another directory";
    return error;
  }
  return {};
}

// A snapshot may replace an earlier one only if it can be read again.
Status check_finite(const std::string& name, std::span<const float> values) {
  if (optim::all_below(values, std::numeric_limits<float>::infinity())) return {};
  return Error{Errc::kData, fmt::format("'{}' has values that are not finite", name)};
}

}  // namespace

struct SnapshotWriter::Impl {
  FileSystem* files;
  std::string directory;
  std::string temporary;
  std::unique_ptr<Directory> root;
  std::unique_ptr<Directory> model;  // null until a file that describes the model is written
  Manifest manifest;
  std::unordered_set<std::string> names;
  bool in_sparse = false;
  bool finished = false;
  std::optional<BlockWriter> rows_file;
  std::vector<std::uint64_t> removed;  // from the table, between begin_sparse and end_sparse

  ~Impl() {
    if (finished) return;
    static_cast<void>(files->remove_all(temporary));
  }

  Status begin_parameter(const wire::ParameterSpec& spec, bool sparse) {
    PADDLE_CHECK(!in_sparse && !finished);
    PADDLE_CHECK(spec.sparse() == sparse);
    PADDLE_TRY_STATUS(parameter::validate(spec));
    if (!names.insert(spec.name()).second) {
      return Error{Errc::kUsage,
                   fmt::format("parameter '{}' occurs twice in the snapshot", spec.name())};
    }
    return {};
  }

  ManifestParameter& current() { return manifest.parameters.back(); }

  Status open_rows_file() {
    const ManifestParameter& table = current();
    const std::string name = rows_file_name(table.spec.name(), table.files.size());
    PADDLE_TRY(BlockWriter writer,
               BlockWriter::create(*root, name, block_header(manifest.id, table, name)));
    rows_file = std::move(writer);
    return {};
  }

  Status close_rows_file() {
    PADDLE_TRY(FileEntry entry, rows_file->finish());
    rows_file.reset();
    current().files.push_back(std::move(entry));
    return {};
  }

  Status write_removed() {
    const std::string name = removed_file_name(current().spec.name());
    PADDLE_TRY(BlockWriter writer,
               BlockWriter::create(*root, name, block_header(manifest.id, current(), name)));
    PADDLE_TRY_STATUS(writer.append(bytes_of(std::span<const std::uint64_t>(removed))));
    PADDLE_TRY(FileEntry entry, writer.finish());
    current().files.push_back(std::move(entry));
    current().removed = removed.size();
    removed.clear();
    return {};
  }

  static Result<FileEntry> write_into(Directory& directory, const std::string& name,
                                      const std::string& text) {
    PADDLE_TRY(FileWriter file, FileWriter::create(directory, name));
    PADDLE_TRY_STATUS(file.append(as_bytes(text)));
    return file.finish();
  }

  Status write_file(const std::string& name, const std::string& text) const {
    PADDLE_TRY_STATUS(write_into(*root, name, text));
    return {};
  }

  Result<FileEntry> write_model_file(const std::string& name, const std::string& text) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos) return write_into(*root, name, text);
    if (!model) {
      const std::string folder = temporary + "/" + name.substr(0, slash);
      PADDLE_TRY_STATUS(files->make_directory(folder));
      PADDLE_TRY(model, files->open_directory(folder));
    }
    PADDLE_TRY(FileEntry entry, write_into(*model, name.substr(slash + 1), text));
    entry.name = name;
    return entry;
  }

  Status add_rows(ByteSpan rows) {
    const table::RowForm form = table::RowForm::of(current().spec, current().state_width);
    if (const Status whole = form.check(rows, rows.size() / form.bytes()); !whole) {
      return Error{Errc::kUsage,
                   fmt::format("rows of '{}': {}", current().spec.name(), whole.error().message)};
    }
    for (std::size_t at = 0; at < rows.size(); at += form.bytes()) {
      PADDLE_TRY_STATUS(check_finite(current().spec.name(), form.floats_at(rows.data() + at)));
    }
    current().rows += rows.size() / form.bytes();
    while (!rows.empty()) {
      if (rows_file->body_bytes() >= kRowsFileBytesMax) {
        PADDLE_TRY_STATUS(close_rows_file());
        PADDLE_TRY_STATUS(open_rows_file());
      }
      // The row that reaches the limit is the last one of its file.
      const std::uint64_t left = kRowsFileBytesMax - rows_file->body_bytes();
      const std::uint64_t some = (left + form.bytes() - 1) / form.bytes() * form.bytes();
      const ByteSpan part = rows.first(std::min<std::uint64_t>(some, rows.size()));
      PADDLE_TRY_STATUS(rows_file->append(part));
      rows = rows.subspan(part.size());
    }
    return {};
  }
};

SnapshotWriter::SnapshotWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SnapshotWriter::SnapshotWriter(SnapshotWriter&&) noexcept = default;
SnapshotWriter& SnapshotWriter::operator=(SnapshotWriter&&) noexcept = default;
SnapshotWriter::~SnapshotWriter() = default;

Result<SnapshotWriter> SnapshotWriter::create(const std::string& directory, SnapshotInfo info,
                                              FileSystem& files) {
  PADDLE_TRY_STATUS(optim::validate(info.optimizer));
  const std::string name = without_trailing_slash(directory);
  PADDLE_TRY_STATUS(clear_leftovers(files, name));
  PADDLE_TRY_STATUS(check_replaceable(files, name));
  const std::string temporary = name + std::string(kUnfinished);
  PADDLE_TRY_STATUS(files.make_directory(temporary));
  auto impl = std::make_unique<Impl>();
  impl->files = &files;
  impl->directory = name;
  impl->temporary = temporary;
  impl->manifest.id = snapshot_id(info);
  impl->manifest.info = std::move(info);
  PADDLE_TRY(impl->root, files.open_directory(temporary));
  return SnapshotWriter(std::move(impl));
}

Status SnapshotWriter::add_model_file(const ModelFile& file) {
  PADDLE_CHECK(!impl_->finished);
  if (!is_model_file_name(file.name) || file.content.size() > model_file_bytes_max(file.name)) {
    return Error{Errc::kUsage, fmt::format("'{}', of {} bytes, cannot describe the model of a "
                                           "snapshot",
                                           file.name, file.content.size())};
  }
  if (impl_->manifest.model.size() == kModelFilesMax) {
    return Error{
        Errc::kUsage,
        fmt::format("a snapshot has at most {} files that describe its model", kModelFilesMax)};
  }
  PADDLE_TRY(FileEntry entry, impl_->write_model_file(file.name, file.content));
  impl_->manifest.model.push_back(std::move(entry));
  return {};
}

Status SnapshotWriter::add_dense(const wire::ParameterSpec& spec, std::span<const float> value,
                                 std::span<const float> state, std::uint64_t update_count) {
  PADDLE_TRY_STATUS(impl_->begin_parameter(spec, false));
  const std::uint64_t count = parameter::element_count(spec);
  if (value.size() != count || state.size() % count != 0 || state.size() / count > kStateWidthMax) {
    return Error{
        Errc::kUsage,
        fmt::format("parameter '{}' has {} values and {} state values, expected {} and a multiple",
                    spec.name(), value.size(), state.size(), count)};
  }
  PADDLE_TRY_STATUS(check_finite(spec.name(), value));
  PADDLE_TRY_STATUS(check_finite(spec.name(), state));
  ManifestParameter parameter;
  parameter.spec = spec;
  parameter.state_width = static_cast<std::uint32_t>(state.size() / count);
  PADDLE_TRY(FileWriter file, FileWriter::create(*impl_->root, spec.name()));
  PADDLE_TRY_STATUS(file.append(parameter_file_header(count)));
  PADDLE_TRY_STATUS(file.append(bytes_of(value)));
  PADDLE_TRY(FileEntry value_entry, file.finish());
  const std::string state_name = state_file_name(spec.name());
  BlockHeader header = block_header(impl_->manifest.id, parameter, state_name);
  header.update_count = update_count;
  PADDLE_TRY(BlockWriter blocks, BlockWriter::create(*impl_->root, state_name, header));
  PADDLE_TRY_STATUS(blocks.append(bytes_of(state)));
  PADDLE_TRY(FileEntry state_entry, blocks.finish());
  parameter.files = {std::move(value_entry), std::move(state_entry)};
  impl_->manifest.parameters.push_back(std::move(parameter));
  return {};
}

Status SnapshotWriter::begin_sparse(const wire::ParameterSpec& spec, std::uint32_t state_width) {
  PADDLE_TRY_STATUS(impl_->begin_parameter(spec, true));
  if (state_width > kStateWidthMax) {
    return Error{Errc::kUsage, fmt::format("state width {} of '{}'", state_width, spec.name())};
  }
  ManifestParameter table;
  table.spec = spec;
  table.state_width = state_width;
  impl_->manifest.parameters.push_back(std::move(table));
  impl_->in_sparse = true;
  return impl_->open_rows_file();
}

Status SnapshotWriter::add_rows(ByteSpan rows) {
  PADDLE_CHECK(impl_->in_sparse);
  return impl_->add_rows(rows);
}

Status SnapshotWriter::end_sparse() {
  PADDLE_CHECK(impl_->in_sparse);
  impl_->in_sparse = false;
  PADDLE_TRY_STATUS(impl_->close_rows_file());
  return impl_->manifest.info.base ? impl_->write_removed() : Status();
}

Status SnapshotWriter::add_removed(std::span<const std::uint64_t> ids) {
  PADDLE_CHECK(impl_->in_sparse && impl_->manifest.info.base);
  impl_->removed.insert(impl_->removed.end(), ids.begin(), ids.end());
  return {};
}

// The steps from 3 have the numbers of the drawing in docs/internals.md, "A snapshot".
Status SnapshotWriter::finish() {
  PADDLE_CHECK(!impl_->in_sparse && !impl_->finished);
  PADDLE_CHECK(impl_->manifest.parameters.size() == impl_->names.size());  // no error was ignored
  // 3: the names in the model's folder.
  if (impl_->model) PADDLE_TRY_STATUS(impl_->model->sync());
  const std::string text = encode_manifest(impl_->manifest);
  if (text.size() > kManifestBytesMax) {
    return Error{Errc::kResource, fmt::format("MANIFEST is too large: {} bytes", text.size())};
  }
  // Readers refuse more than this writer does, and a snapshot that none of them accepts must not
  // replace an earlier one.
  if (auto read = decode_manifest(text); !read) {
    return std::move(read).error().with("not saved, since it could not be read again");
  }
  // 4: from here the folder is a snapshot.
  PADDLE_TRY_STATUS(impl_->write_file("MANIFEST", text));
  // 5: the loaders of v0.10 require this file.
  const std::string done = fmt::format("paddle version: {} real byte size: 4\n", kProgramVersion);
  PADDLE_TRY_STATUS(impl_->write_file("done", done));
  // 6: the names of all other files.
  PADDLE_TRY_STATUS(impl_->root->sync());
  // Checked in create() already, but the files took their time to write, and something else may
  // have taken the name since then.
  PADDLE_TRY_STATUS(check_replaceable(*impl_->files, impl_->directory));
  // 7: from here publish() cleans up. Once it has exchanged the names, the folder with the
  // temporary name is the earlier snapshot, which a crash may still bring back: if publish() fails
  // then, the destructor must not remove it.
  impl_->finished = true;
  return publish(*impl_->files, impl_->directory);
}

}  // namespace paddle::snapshot
