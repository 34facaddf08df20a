// A snapshot whose MANIFEST and files were changed by someone who made every checksum right again,
// read as `--resume`, `export` and `init` read it.
#include <filesystem>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/snapshot/reader.h"
#include "engine/snapshot/writer.h"
#include "tests/fuzz/input.h"
#include "tests/support/saved_row.h"
#include "tests/support/temporary_folder.h"

using namespace paddle;
using namespace paddle::snapshot;

namespace {

constexpr std::size_t kChangesMax = 8;

wire::ParameterSpec make_spec(const std::string& name, std::uint64_t rows, std::uint64_t columns) {
  wire::ParameterSpec spec;
  spec.set_name(name);
  spec.set_sparse(rows == 0);
  spec.add_dims(rows);
  spec.add_dims(columns);
  spec.set_learning_rate(1);
  if (rows == 0) spec.mutable_table()->mutable_shrink()->set_decay(0.5F);
  return spec;
}

// A full snapshot, and a delta of it.
void write_snapshot(const std::string& directory, std::optional<BaseSnapshot> base) {
  const bool is_delta = base.has_value();
  SnapshotInfo info;
  info.optimizer.set_method("adam");
  info.optimizer.set_learning_rate(0.1F);
  info.pass = is_delta ? 4 : 2;
  info.trainer_cursors = {7, 9};
  info.pass_batches = {3, 4};
  info.base = std::move(base);
  auto writer = *SnapshotWriter::create(directory, info);
  const std::vector<float> value = {1, -2.5F};
  const std::vector<float> state = {1, 2, 3, 4};
  const std::vector<test::SavedRow> rows = {
      {.id = 0, .marks = 1, .value = {1, 2, 3}, .state = {4, 5, 6, 7, 8, 9}},
      {.id = 5, .marks = 5, .value = {-1, 0, 1}, .state = {0, 0, 0, 1, 1, 1}, .score = {8, 4}}};
  const std::vector<std::uint64_t> removed = {6, 77};
  const bool written =
      writer.add_model_file({"model/job.toml", "seed = 1\n"}) &&
      writer.add_model_file({"path.txt", "job.toml"}) &&
      writer.add_dense(make_spec("w", 1, 2), value, state, 17) &&
      writer.begin_sparse(make_spec("t", 0, 3), 2) && writer.add_rows(test::encoded(rows, true)) &&
      (!is_delta || writer.add_removed(removed)) && writer.end_sparse() && writer.finish();
  PADDLE_CHECK(written);
}

std::string manifest_of(const std::string& directory) {
  return *read_file(directory + "/MANIFEST");
}

// Ends a changed MANIFEST with the checksum of what stands above its last line.
std::string with_right_checksum(std::string text) {
  text.resize(text.find_last_of('\n', text.empty() ? 0 : text.size() - 2) + 1);
  return text + fmt::format("sha256 {}\n", to_hex(sha256_of(as_bytes(text))));
}

void change_text(fuzz::Input& input, std::string& text) {
  const std::size_t at = input.number() * 7 % (text.size() + 1);
  const std::size_t count = input.below(8);
  text.replace(at, count, input.text(input.below(24)));
}

class Forger {
 public:
  Forger(fuzz::Input& input, std::string directory)
      : input_(input),
        directory_(std::move(directory)),
        folder_(*kernel_file_system().open_directory(directory_)),
        manifest_(*decode_manifest(manifest_of(directory_))) {}

  void run() {
    for (std::size_t i = 0; i < kChangesMax && !input_.empty(); ++i) change();
    std::string text = encode_manifest(manifest_);
    for (std::uint8_t left = input_.below(4); left > 0; --left) change_text(input_, text);
    if (!input_.rarely(16)) text = with_right_checksum(std::move(text));
    PADDLE_CHECK(replace_file(directory_ + "/MANIFEST", as_bytes(text)));
  }

 private:
  ManifestParameter& parameter() {
    return manifest_.parameters[input_.byte() % manifest_.parameters.size()];
  }

  void change() {
    switch (input_.below(7)) {
      case 0:
        return change_info();
      case 1:
        return change_parameter();
      case 2:
        return change_files();
      case 3:
        manifest_.parameters.push_back(ManifestParameter(parameter()));
        return;
      case 4:
        return rewrite_blocks();
      default:
        return rewrite_file();
    }
  }

  void change_info() {
    SnapshotInfo& info = manifest_.info;
    const std::array<std::uint64_t*, 4> numbers = {&info.pass, &info.step, &info.samples,
                                                   &info.seed};
    *input_.choice(numbers) = input_.number();
    if (input_.flag()) info.trainer_cursors.assign(input_.below(8), input_.number());
    if (input_.flag()) info.pass_batches.assign(input_.below(8), input_.number());
    if (input_.rarely(32) && info.base) info.base->name = input_.text(input_.below(24));
  }

  void change_parameter() {
    ManifestParameter& changed = parameter();
    if (input_.rarely(64)) changed.spec.set_name(std::string(input_.text(input_.below(24))));
    if (input_.rarely(64)) changed.spec.set_sparse(input_.flag());
    if (input_.flag()) changed.spec.set_dims(input_.below(2), input_.number());
    if (input_.flag()) changed.state_width = static_cast<std::uint32_t>(input_.number());
    if (input_.flag()) changed.rows = input_.number();
    if (input_.flag()) changed.removed = input_.number();
  }

  void change_files() {
    std::vector<FileEntry>& files = input_.rarely(32) ? manifest_.model : parameter().files;
    FileEntry& entry = files[input_.byte() % files.size()];
    switch (input_.below(4)) {
      case 0:
        entry.size = input_.number();
        return;
      case 1:
        entry.name = input_.text(input_.below(24));
        return;
      case 2:
        std::swap(entry, parameter().files.front());
        return;
      default:
        files.push_back(FileEntry(entry));
    }
  }

  // A file of a parameter; null when the MANIFEST now names one elsewhere.
  FileEntry* file() {
    std::vector<FileEntry>& files = parameter().files;
    FileEntry& entry = files[input_.byte() % files.size()];
    return std::filesystem::is_regular_file(directory_ + "/" + entry.name) &&
                   entry.name.find('/') == entry.name.npos
               ? &entry
               : nullptr;
  }

  // Other bytes in a file, and its right size and checksum in the MANIFEST.
  void rewrite_file() {
    FileEntry* const entry = file();
    if (entry == nullptr) return;
    std::string text = *read_file(directory_ + "/" + entry->name);
    change_text(input_, text);
    replace(*entry, FileWriter::create(*folder_, kNewFile), as_bytes(text));
  }

  // A file of blocks with right checksums inside.
  void rewrite_blocks() {
    FileEntry* const entry = file();
    if (entry == nullptr) return;
    BlockHeader header = block_header(manifest_.id, parameter(), entry->name);
    if (input_.rarely(32)) header.snapshot = {};
    if (input_.flag()) header.kind = static_cast<BlockKind>(1 + input_.below(4));
    if (input_.flag()) header.width = input_.number();
    if (input_.flag()) header.state_width = input_.below(4);
    header.update_count = input_.number();
    header.has_scores = input_.flag();
    const std::string body(input_.text(input_.byte()));
    replace(*entry, BlockWriter::create(*folder_, kNewFile, header), as_bytes(body));
  }

  template <class Writer>
  void replace(FileEntry& entry, Result<Writer> writer, ByteSpan content) {
    PADDLE_CHECK(writer && writer->append(content));
    FileEntry made = *writer->finish();
    std::filesystem::rename(directory_ + "/" + kNewFile, directory_ + "/" + entry.name);
    made.name = entry.name;
    entry = made;
  }

  static constexpr const char* kNewFile = "new";
  fuzz::Input& input_;
  std::string directory_;
  std::unique_ptr<Directory> folder_;
  Manifest manifest_;
};

void read_all(const std::string& directory) {
  const auto reader = SnapshotReader::open(directory);
  if (!reader) return;
  for (const FileEntry& file : reader->manifest().model)
    static_cast<void>(reader->read_model_file(file.name));
  for (const wire::ParameterSpec& spec : reader->parameters()) {
    std::vector<float> value;
    std::vector<float> state;
    std::uint64_t update_count = 0;
    static_cast<void>(reader->read_dense(spec.name(), value, state, update_count));
    static_cast<void>(reader->read_rows(spec.name(), [](const table::Row&) { return Status(); }));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace fs = std::filesystem;
  static const test::TemporaryFolder kFolder;
  static const std::string kGood = kFolder / "good";
  if (!fs::exists(kGood)) {
    fs::create_directories(kGood);
    write_snapshot(kGood + "/pass-00001", std::nullopt);
    write_snapshot(kGood + "/pass-00003", *base_of(kGood + "/pass-00001"));
  }
  const std::string forged = kFolder / "forged";
  fs::remove_all(forged);
  fs::copy(kGood, forged, fs::copy_options::recursive);
  fuzz::Input input(data, size);
  const std::string directory = forged + (input.flag() ? "/pass-00003" : "/pass-00001");
  Forger(input, directory).run();
  read_all(directory);
  read_all(forged + "/pass-00003");
  static_cast<void>(base_of(directory));
  return 0;
}
