#include "engine/snapshot/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/safe_path.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/version.h"
#include "engine/math/optimizer.h"
#include "engine/table/parameter_set.h"

namespace paddle::snapshot {
namespace {

constexpr std::uint32_t kMagic1 = 0x31424450;  // "PDB1"
constexpr std::uint32_t kMagic2 = 0x32424450;  // "PDB2"
constexpr std::size_t kCrcBytes = sizeof(std::uint32_t);
constexpr std::size_t kUpdateCountAt = 24;
constexpr std::size_t kSnapshotAt = 36;
constexpr std::size_t kNameAt = kSnapshotAt + sizeof(SnapshotId) + sizeof(std::uint32_t);

template <class T>
void append_le(Bytes& bytes, T value) {
  bytes.resize(bytes.size() + sizeof(T));
  store_le<T>(bytes.data() + bytes.size() - sizeof(T), value);
}

Bytes encode(const BlockHeader& header, const std::string& name) {
  Bytes bytes;
  append_le<std::uint32_t>(bytes, header.snapshot ? kMagic2 : kMagic1);
  append_le<std::uint32_t>(bytes, static_cast<std::uint32_t>(header.kind));
  append_le<std::uint64_t>(bytes, header.width);
  append_le<std::uint32_t>(bytes, header.state_width);
  append_le<std::uint32_t>(bytes, kBlockBytes);
  append_le<std::uint64_t>(bytes, header.update_count);
  append_le<std::uint32_t>(bytes, header.has_scores ? 1 : 0);
  if (header.snapshot) {
    append_bytes(bytes, std::span<const std::byte>(*header.snapshot));
    append_le<std::uint32_t>(bytes, static_cast<std::uint32_t>(name.size()));
    append_bytes(bytes, std::span(name));
  }
  append_le<std::uint32_t>(bytes, crc32c(bytes));
  return bytes;
}

// Describes how the header of the file `name` differs from the expected one.
std::string difference(const BlockHeader& expected, const std::string& name, ByteSpan found) {
  if (expected.snapshot && load_le<std::uint32_t>(found.data()) == kMagic2) {
    const ByteSpan snapshot = found.subspan(kSnapshotAt, sizeof(SnapshotId));
    if (!std::ranges::equal(snapshot, *expected.snapshot)) {
      return fmt::format("it belongs to snapshot {}, MANIFEST to snapshot {}", to_hex(snapshot),
                         to_hex(*expected.snapshot));
    }
    const ByteSpan found_name = found.subspan(kNameAt, name.size());
    if (!std::ranges::equal(found_name, as_bytes(name))) {
      return fmt::format(
          "its header belongs to another file, '{}'",
          escape_control({reinterpret_cast<const char*>(found_name.data()), found_name.size()}));
    }
  }
  return fmt::format("its header is corrupt, or does not have width {} and state width {}",
                     expected.width, expected.state_width);
}

constexpr std::int32_t kFormatVersion = 0;
constexpr std::uint32_t kValueBytes = sizeof(float);

Error differs(const char* what, std::uint64_t expected, std::uint64_t found) {
  return Error{Errc::kData, fmt::format("expected {} {}, found {}", what, expected, found)};
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

BlockCrc::BlockCrc(ByteSpan header, const std::optional<SnapshotId>& snapshot) {
  if (snapshot) header_ = load_le<std::uint32_t>(header.last<kCrcBytes>().data());
}

std::uint32_t BlockCrc::next(ByteSpan block) {
  if (!header_) return crc32c(block);
  std::array<std::byte, sizeof(std::uint64_t)> number{};
  store_le<std::uint64_t>(number.data(), number_++);
  return crc32c(block, crc32c(number, *header_));
}

Result<FileWriter> FileWriter::create(Directory& directory, const std::string& name) {
  PADDLE_TRY(auto file, directory.create(name));
  return FileWriter(name, std::move(file));
}

Status FileWriter::append(ByteSpan data) {
  PADDLE_CHECK(file_ != nullptr);
  if (auto written = file_->append(data); !written) {
    file_.reset();
    return written;
  }
  entry_.size += data.size();
  sha256_.update(data);
  return {};
}

Result<FileEntry> FileWriter::finish() {
  PADDLE_CHECK(file_ != nullptr);
  const std::unique_ptr<OutputFile> file = std::move(file_);
  PADDLE_TRY_STATUS(file->sync());
  entry_.sha256 = sha256_.finish();
  return std::move(entry_);
}

Result<BlockWriter> BlockWriter::create(Directory& directory, const std::string& name,
                                        const BlockHeader& header) {
  PADDLE_TRY(FileWriter file, FileWriter::create(directory, name));
  const Bytes encoded = encode(header, name);
  PADDLE_TRY_STATUS(file.append(encoded));
  return BlockWriter(std::move(file), BlockCrc(encoded, header.snapshot));
}

Status BlockWriter::append(ByteSpan data) {
  body_bytes_ += data.size();
  while (!data.empty()) {
    const std::size_t part = std::min(data.size(), kBlockBytes - block_.size());
    block_.insert(block_.end(), data.begin(), data.begin() + static_cast<std::ptrdiff_t>(part));
    data = data.subspan(part);
    if (block_.size() == kBlockBytes) PADDLE_TRY_STATUS(flush());
  }
  return {};
}

Status BlockWriter::flush() {
  if (block_.empty()) return {};
  std::array<std::byte, kCrcBytes> crc{};
  store_le<std::uint32_t>(crc.data(), crc_.next(block_));
  PADDLE_TRY_STATUS(file_.append(block_));
  block_.clear();
  return file_.append(crc);
}

Result<FileEntry> BlockWriter::finish() {
  PADDLE_TRY_STATUS(flush());
  return file_.finish();
}

Error FileReader::error(const std::string& what) const {
  return Error{Errc::kData, expected_.name + ": " + what};
}

Result<FileReader> FileReader::open(const Directory& directory, const FileEntry& expected) {
  PADDLE_TRY(auto opened, directory.open(expected.name));
  FileReader file(expected, std::move(opened));
  if (const std::uint64_t found = file.file_->size(); found != expected.size) {
    return file.error(fmt::format("expected {} bytes, found {}", expected.size, found));
  }
  return file;
}

Status FileReader::read(std::span<std::byte> into) {
  if (into.size() > bytes_left()) {
    return error(fmt::format("expected {} more bytes, found {}", into.size(), bytes_left()));
  }
  if (auto read = file_->read(into); !read) return error(read.error().message);
  offset_ += into.size();
  crc_ = crc32c(into, crc_);
  return {};
}

Status FileReader::finish() const {
  if (bytes_left() != 0) return error(fmt::format("{} bytes after its end", bytes_left()));
  if (crc_ != expected_.crc) {
    return error(fmt::format("expected CRC32C {:08x}, found {:08x}", expected_.crc, crc_));
  }
  return {};
}

Result<BlockReader> BlockReader::open(const Directory& directory, const FileEntry& entry,
                                      const BlockHeader& expected) {
  PADDLE_TRY(FileReader file, FileReader::open(directory, entry));
  BlockHeader header = expected;
  Bytes wanted = encode(header, entry.name);
  Bytes found(wanted.size());
  PADDLE_TRY_STATUS(file.read(found));
  header.update_count = load_le<std::uint64_t>(found.data() + kUpdateCountAt);
  wanted = encode(header, entry.name);
  if (found != wanted) return file.error(difference(expected, entry.name, found));
  BlockReader reader(std::move(file), BlockCrc(found, expected.snapshot));
  reader.update_count_ = header.update_count;
  const std::uint64_t rest = entry.size - wanted.size();
  const std::uint64_t last = rest % (kBlockBytes + kCrcBytes);
  if (last != 0 && last <= kCrcBytes) return reader.error("its last block is cut off");
  const std::uint64_t blocks = rest / (kBlockBytes + kCrcBytes) + (last != 0 ? 1 : 0);
  reader.bytes_left_ = rest - blocks * kCrcBytes;
  return reader;
}

Status BlockReader::next_block() {
  block_.resize(std::min<std::uint64_t>(kBlockBytes, file_.bytes_left() - kCrcBytes));
  block_offset_ = 0;
  PADDLE_TRY_STATUS(file_.read(block_));
  std::array<std::byte, kCrcBytes> stored{};
  PADDLE_TRY_STATUS(file_.read(stored));
  const auto expected = load_le<std::uint32_t>(stored.data());
  if (const auto found = crc_.next(block_); found != expected) {
    return error(fmt::format("block expected CRC32C {:08x}, found {:08x}", expected, found));
  }
  return {};
}

Status BlockReader::read(std::span<std::byte> into) {
  if (into.size() > bytes_left_) {
    return error(fmt::format("expected {} more bytes, found {}", into.size(), bytes_left_));
  }
  bytes_left_ -= into.size();
  while (!into.empty()) {
    if (block_offset_ == block_.size()) PADDLE_TRY_STATUS(next_block());
    const std::size_t part = std::min(into.size(), block_.size() - block_offset_);
    std::copy_n(block_.begin() + static_cast<std::ptrdiff_t>(block_offset_), part, into.begin());
    block_offset_ += part;
    into = into.subspan(part);
  }
  return {};
}

Status BlockReader::finish() const {
  if (bytes_left_ != 0) return error(fmt::format("{} bytes after its end", bytes_left_));
  return file_.finish();
}

Status verify_file(const Directory& directory, FileEntry& expected) {
  PADDLE_TRY(FileReader file, FileReader::open(directory, expected));
  Sha256 sha256;
  Bytes buffer;
  while (file.bytes_left() > 0) {
    buffer.resize(std::min<std::uint64_t>(kBlockBytes, file.bytes_left()));
    PADDLE_TRY_STATUS(file.read(buffer));
    if (expected.sha256) sha256.update(buffer);
  }
  if (!expected.sha256) return file.finish();
  if (const Sha256Digest found = sha256.finish(); found != *expected.sha256) {
    return file.error(
        fmt::format("expected SHA-256 {}, found {}: it is damaged, or belongs to another snapshot",
                    to_hex(*expected.sha256), to_hex(found)));
  }
  expected.crc = file.crc();
  return {};
}

// MANIFEST.

namespace {

// Parser of the fields " key=value" of a line; complete() returns whether all of them matched.
class FieldParser {
 public:
  FieldParser(std::string_view line, std::string_view kind) : rest_(line) {
    good_ = rest_.starts_with(kind);
    if (good_) rest_.remove_prefix(kind.size());
  }
  std::string_view text(std::string_view key) {
    if (!skip(key)) return {};
    const std::string_view value = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(value.size());
    return value;
  }
  // Whether an optional field comes next.
  bool has(std::string_view key) const { return rest_.starts_with(fmt::format(" {}=", key)); }
  // A name may contain spaces, so it is the last field.
  std::string name() {
    if (!skip("name")) return {};
    return std::string(std::exchange(rest_, {}));
  }
  template <class T>
  T number(std::string_view key) {
    return parse<T>(text(key));
  }
  template <class T, class... Base>
  T parse(std::string_view value, Base... base) {
    T number{};
    const char* const end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, number, base...);
    if (error != std::errc() || at != end) good_ = false;
    return number;
  }
  // Whole bytes as lower-case hexadecimal digits, as to_hex() writes them.
  template <std::size_t kBytes>
  std::array<std::byte, kBytes> hex(std::string_view key) {
    const std::string_view digits = text(key);
    std::array<std::byte, kBytes> bytes{};
    good_ = good_ && digits.size() == 2 * kBytes;
    for (std::size_t i = 0; good_ && i < kBytes; ++i) {
      bytes[i] = static_cast<std::byte>(parse<std::uint8_t>(digits.substr(2 * i, 2), 16));
    }
    good_ = good_ && to_hex(bytes) == digits;
    return bytes;
  }
  // A count within the limits, so that training that continues from it does not overflow.
  std::uint64_t count(std::string_view key, std::uint64_t most = parameter::kCounterMax) {
    const auto number = this->number<std::uint64_t>(key);
    good_ = good_ && number <= most;
    return number;
  }
  bool complete() const { return good_ && rest_.empty(); }

 private:
  bool skip(std::string_view key) {
    good_ = good_ && has(key);
    if (good_) rest_.remove_prefix(fmt::formatted_size(" {}=", key));
    return good_;
  }

  std::string_view rest_;
  bool good_ = true;
};

Error malformed(std::string_view line) {
  return Error{Errc::kData,
               fmt::format("MANIFEST: unexpected line '{}'", escape_control(line.substr(0, 200)))};
}

constexpr std::uint64_t kPassesMax = UINT32_MAX;  // train.passes is a u32
constexpr std::uint32_t kFirstFormat = 1;
constexpr std::uint32_t kBareFormat = 2;   // without files that describe the model
constexpr std::uint32_t kModelFormat = 3;  // with them
constexpr std::string_view kModelFolder = "model/";
constexpr std::string_view kFirstFormatLine = "snapshot format=1 ";

// The last line: a checksum of the text before it.
std::string last_line(std::string_view text, std::uint32_t format) {
  if (format == kFirstFormat) return fmt::format("crc32c {:08x}\n", crc32c(as_bytes(text)));
  return fmt::format("sha256 {}\n", to_hex(sha256_of(as_bytes(text))));
}

std::string optional_field(std::string_view key, bool is_set, float value) {
  return is_set ? fmt::format(" {}={}", key, value) : "";
}

std::string encode_optimizer(const wire::Optimizer& optimizer) {
  std::string text = fmt::format("optimizer method={} learning_rate={}", optimizer.method(),
                                 optimizer.learning_rate());
  for (const optim::Option& option : optim::options()) {
    text += optional_field(option.name, (optimizer.*option.has)(), (optimizer.*option.get)());
  }
  text += optional_field("centered", optimizer.has_centered(), optimizer.centered() ? 1 : 0);
  text +=
      optional_field("average_window", optim::has_average(optimizer), optimizer.average().window());
  return text + "\n";
}

std::string encode_parameter(const ManifestParameter& parameter, bool is_delta) {
  const wire::ParameterSpec& spec = parameter.spec;
  std::string dims;
  for (const std::uint64_t dim : spec.dims())
    dims += fmt::format("{}{}", dims.empty() ? "" : "x", dim);
  std::string text = fmt::format(
      "parameter kind={} dims={} initial_mean={} initial_std={} learning_rate={}{} static={} "
      "state_width={} rows={}{}{} files={} name={}\n",
      spec.sparse() ? "sparse" : "dense", dims, spec.initial_mean(), spec.initial_std(),
      spec.learning_rate(), optional_field("l2", spec.has_l2(), spec.l2()),
      spec.is_static() ? 1 : 0, parameter.state_width, parameter.rows,
      optional_field("decay", spec.table().has_shrink(), spec.table().shrink().decay()),
      is_delta && spec.sparse() ? fmt::format(" removed={}", parameter.removed) : "",
      parameter.files.size(), spec.name());
  for (const FileEntry& file : parameter.files) {
    text +=
        fmt::format("file size={} sha256={} name={}\n", file.size, to_hex(*file.sha256), file.name);
  }
  return text;
}

std::string encode_order(const DataOrder& order) {
  return fmt::format(
      "order batch_size={} shuffle_records={} files_at_once={} global_shuffle={} uneven={} "
      "reader={}\n",
      order.batch_size, order.shuffle_records, order.files_at_once, order.global_shuffle ? 1 : 0,
      order.uneven, order.reader);
}

std::string encode_info(const SnapshotInfo& info) {
  std::string text = fmt::format("progress pass={} step={} seed={} samples={}\n", info.pass,
                                 info.step, info.seed, info.samples);
  if (info.base) {
    text += fmt::format("base sha256={} name={}\n", to_hex(*info.base->sha256), info.base->name);
  }
  text += encode_optimizer(info.optimizer);
  const auto& place = info.place;
  if (place) text += encode_order(place->order);
  for (std::size_t i = 0; i < info.trainer_cursors.size(); ++i) {
    text += fmt::format("trainer id={} cursor={}", i, info.trainer_cursors[i]);
    if (i < info.pass_batches.size()) text += fmt::format(" batches={}", info.pass_batches[i]);
    if (place && i < place->records.size()) text += fmt::format(" records={}", place->records[i]);
    if (place && i < place->data.size()) text += fmt::format(" data={}", place->data[i]);
    text += "\n";
  }
  return text;
}

class Decoder {
 public:
  explicit Decoder(std::string_view text) : rest_(text) {}

  Result<Manifest> decode() {
    Manifest manifest;
    FieldParser format(line(), "snapshot");
    const auto version = format.number<std::uint32_t>("format");
    format.text("engine");
    is_first_format_ = version == kFirstFormat;
    has_description_ = version >= kModelFormat;
    if (version < kFirstFormat || version > kSnapshotFormat) {
      return Error{Errc::kVersion,
                   fmt::format("MANIFEST: it has format {}, but this program reads {} to {}",
                               version, kFirstFormat, kSnapshotFormat)};
    }
    if (!is_first_format_) manifest.id = format.hex<sizeof(SnapshotId)>("id");
    if (!format.complete()) return malformed(line_);
    PADDLE_TRY_STATUS(decode_info(manifest.info));
    if (has_description_) PADDLE_TRY_STATUS(decode_model(manifest.model));
    std::unordered_set<std::string> names;
    while (!rest_.empty()) {
      PADDLE_TRY(ManifestParameter parameter, decode_parameter(manifest.info.base.has_value()));
      if (!names.insert(parameter.spec.name()).second) {
        return Error{Errc::kData,
                     fmt::format("MANIFEST: parameter '{}' occurs twice", parameter.spec.name())};
      }
      manifest.parameters.push_back(std::move(parameter));
    }
    return manifest;
  }

 private:
  std::string_view line() {
    line_ = rest_.substr(0, rest_.find('\n'));
    rest_.remove_prefix(std::min(rest_.size(), line_.size() + 1));
    return line_;
  }

  Status decode_info(SnapshotInfo& info) {
    FieldParser progress(line(), "progress");
    info.pass = progress.count("pass", kPassesMax);
    info.step = progress.count("step");
    info.seed = progress.number<std::uint64_t>("seed");
    if (progress.has("samples")) info.samples = progress.count("samples");
    if (!progress.complete()) return malformed(line_);
    if (rest_.starts_with("base ")) {
      FieldParser base(line(), "base");
      info.base.emplace();
      if (is_first_format_) {
        info.base->crc = base.parse<std::uint32_t>(base.text("crc32c"), 16);
      } else {
        info.base->sha256 = base.hex<sizeof(Sha256Digest)>("sha256");
      }
      info.base->name = base.name();
      if (!base.complete() || info.base->name.find('/') != std::string::npos ||
          !SafePath::parse(info.base->name)) {
        return malformed(line_);
      }
    }
    PADDLE_TRY_STATUS(decode_optimizer(info.optimizer));
    if (rest_.starts_with("order ")) PADDLE_TRY_STATUS(decode_order(info.place.emplace().order));
    while (rest_.starts_with("trainer ")) {
      FieldParser trainer(line(), "trainer");
      const auto id = trainer.number<std::uint64_t>("id");
      const auto cursor = trainer.count("cursor");
      if (trainer.has("batches")) {
        info.pass_batches.resize(info.trainer_cursors.size());
        info.pass_batches.push_back(trainer.count("batches"));
      }
      if (info.place && trainer.has("records")) {
        info.place->records.resize(info.trainer_cursors.size());
        info.place->records.push_back(trainer.count("records"));
      }
      if (info.place && trainer.has("data")) {
        info.place->data.resize(info.trainer_cursors.size());
        info.place->data.push_back(trainer.number<std::uint64_t>("data"));
      }
      if (!trainer.complete() || id != info.trainer_cursors.size()) return malformed(line_);
      info.trainer_cursors.push_back(cursor);
    }
    const std::size_t trainers = info.pass_batches.size();
    if (info.place &&
        (info.place->records.size() != trainers || info.place->data.size() != trainers))
      return malformed("it has an order, but not the place of every trainer");
    return {};
  }

  Status decode_order(DataOrder& order) {
    FieldParser fields(line(), "order");
    order.batch_size = fields.count("batch_size");
    order.shuffle_records = fields.count("shuffle_records");
    order.files_at_once = fields.count("files_at_once");
    order.global_shuffle = fields.number<std::uint32_t>("global_shuffle") != 0;
    order.uneven = std::string(fields.text("uneven"));
    order.reader = fields.number<std::uint64_t>("reader");
    const bool is_known = order.uneven == "join" || order.uneven == "drop" || order.uneven == "pad";
    if (!fields.complete() || !is_known || order.batch_size == 0) return malformed(line_);
    return {};
  }

  Status decode_model(std::vector<FileEntry>& files) {
    while (rest_.starts_with("model ")) {
      FieldParser file(line(), "model");
      FileEntry entry;
      entry.size = file.count("size", kModelFileBytesMax);
      entry.sha256 = file.hex<sizeof(Sha256Digest)>("sha256");
      entry.name = file.name();
      const bool is_known = std::ranges::find(files, entry.name, &FileEntry::name) != files.end();
      if (!file.complete() || !is_model_file_name(entry.name) || is_known ||
          files.size() == kModelFilesMax) {
        return malformed(line_);
      }
      files.push_back(std::move(entry));
    }
    return {};
  }

  Status decode_optimizer(wire::Optimizer& optimizer) {
    FieldParser fields(line(), "optimizer");
    optimizer.set_method(std::string(fields.text("method")));
    optimizer.set_learning_rate(fields.number<float>("learning_rate"));
    for (const optim::Option& option : optim::options()) {
      if (fields.has(option.name)) (optimizer.*option.set)(fields.number<float>(option.name));
    }
    if (fields.has("centered")) optimizer.set_centered(fields.number<float>("centered") != 0);
    if (fields.has("average_window")) {
      optimizer.mutable_average()->set_window(fields.number<float>("average_window"));
    }
    if (!fields.complete()) return malformed(line_);
    if (auto valid = optim::validate(optimizer); !valid) {
      return Error{Errc::kData, "MANIFEST: " + valid.error().message};
    }
    return {};
  }

  Result<ManifestParameter> decode_parameter(bool is_delta) {
    ManifestParameter parameter;
    wire::ParameterSpec& spec = parameter.spec;
    FieldParser fields(line(), "parameter");
    const std::string_view kind = fields.text("kind");
    std::string_view dims = fields.text("dims");
    for (std::size_t end = 0; end != std::string_view::npos;) {
      end = dims.find('x');
      spec.add_dims(fields.parse<std::uint64_t>(dims.substr(0, end)));
      if (end != std::string_view::npos) dims.remove_prefix(end + 1);
    }
    spec.set_sparse(kind == "sparse");
    spec.set_initial_mean(fields.number<float>("initial_mean"));
    spec.set_initial_std(fields.number<float>("initial_std"));
    spec.set_learning_rate(fields.number<float>("learning_rate"));
    if (fields.has("l2")) spec.set_l2(fields.number<float>("l2"));
    spec.set_is_static(fields.text("static") == "1");
    parameter.state_width = fields.number<std::uint32_t>("state_width");
    parameter.rows = fields.number<std::uint64_t>("rows");
    if (fields.has("decay")) {
      const auto decay = fields.number<float>("decay");
      if (!(decay >= 0 && decay <= 1)) return malformed(line_);
      spec.mutable_table()->mutable_shrink()->set_decay(decay);
    }
    const bool has_removed = is_delta && kind == "sparse";
    if (has_removed) parameter.removed = fields.number<std::uint64_t>("removed");
    const auto files = fields.number<std::uint64_t>("files");
    spec.set_name(fields.name());
    if (!fields.complete() || (kind != "sparse" && kind != "dense")) return malformed(line_);
    PADDLE_TRY_STATUS(check(spec));
    if (files < (has_removed ? 2 : 1) || (!spec.sparse() && files != 2) ||
        parameter.state_width > kStateWidthMax || (!spec.sparse() && spec.has_table())) {
      return malformed(line_);
    }
    for (std::uint64_t i = 0; i < files; ++i) {
      FieldParser file(line(), "file");
      FileEntry entry;
      entry.size = file.number<std::uint64_t>("size");
      if (is_first_format_) {
        entry.crc = file.parse<std::uint32_t>(file.text("crc32c"), 16);
      } else {
        entry.sha256 = file.hex<sizeof(Sha256Digest)>("sha256");
      }
      entry.name = file.name();
      const std::string expected = has_removed && i + 1 == files ? removed_file_name(spec.name())
                                   : spec.sparse()               ? rows_file_name(spec.name(), i)
                                   : i == 0                      ? spec.name()
                                                                 : state_file_name(spec.name());
      if (!file.complete() || entry.name != expected) return malformed(line_);
      parameter.files.push_back(std::move(entry));
    }
    return parameter;
  }

  // "job.toml" and "model" are reserved names, but snapshots without files that describe the model
  // have no such files, so a parameter may have one of these names there.
  Status check(wire::ParameterSpec spec) const {
    if (!has_description_ && (spec.name() == "job.toml" || spec.name() == "model"))
      spec.set_name("_" + spec.name());
    if (auto valid = parameter::validate(spec); !valid)
      return Error{Errc::kData, "MANIFEST: " + valid.error().message};
    return {};
  }

  std::string_view rest_;
  std::string_view line_;
  bool is_first_format_ = false;
  bool has_description_ = false;
};

}  // namespace

bool is_model_file_name(const std::string& name) {
  if (name == "path.txt" || name == "job.toml") return true;
  if (!name.starts_with(kModelFolder) || !SafePath::parse(name)) return false;
  return name.find('/', kModelFolder.size()) == std::string::npos && escape_control(name) == name;
}

std::string state_file_name(const std::string& parameter) {
  return parameter + ".state";
}

std::string rows_file_name(const std::string& parameter, std::size_t number) {
  return fmt::format("{}.sparse-{:05}", parameter, number);
}

std::string removed_file_name(const std::string& parameter) {
  return parameter + ".sparse-removed";
}

SnapshotId snapshot_id(const SnapshotInfo& info) {
  const Sha256Digest digest = sha256_of(as_bytes(encode_info(info)));
  SnapshotId id{};
  std::copy_n(digest.begin(), id.size(), id.begin());
  return id;
}

BlockHeader block_header(const std::optional<SnapshotId>& snapshot,
                         const ManifestParameter& parameter, const std::string& file) {
  const wire::ParameterSpec& spec = parameter.spec;
  BlockHeader header{.snapshot = snapshot, .state_width = parameter.state_width};
  if (!spec.sparse()) {
    header.kind = BlockKind::kState;
    header.width = parameter::element_count(spec);
  } else if (file == removed_file_name(spec.name())) {
    header = {.snapshot = snapshot, .kind = BlockKind::kIds, .width = 1};
  } else {
    header.kind = BlockKind::kRows;
    header.width = parameter::row_width(spec);
    header.has_scores = spec.table().has_shrink();
  }
  return header;
}

std::string encode_manifest(const Manifest& manifest) {
  const std::uint32_t format = manifest.info.place      ? kSnapshotFormat
                               : manifest.model.empty() ? kBareFormat
                                                        : kModelFormat;
  std::string text = fmt::format("snapshot format={} engine={} id={}\n", format, kProgramVersion,
                                 to_hex(*manifest.id));
  text += encode_info(manifest.info);
  for (const FileEntry& file : manifest.model) {
    text += fmt::format("model size={} sha256={} name={}\n", file.size, to_hex(*file.sha256),
                        file.name);
  }
  for (const ManifestParameter& parameter : manifest.parameters)
    text += encode_parameter(parameter, manifest.info.base.has_value());
  return text + last_line(text, kSnapshotFormat);
}

Result<Manifest> decode_manifest(std::string_view text) {
  const std::uint32_t format = text.starts_with(kFirstFormatLine) ? kFirstFormat : kSnapshotFormat;
  const std::size_t line_bytes = last_line({}, format).size();
  const std::size_t body = text.size() < line_bytes ? 0 : text.size() - line_bytes;
  const std::string expected = last_line(text.substr(0, body), format);
  if (text.substr(body) != expected) {
    return Error{
        Errc::kData,
        fmt::format("MANIFEST: expected last line '{}', found '{}': it is corrupt or cut off",
                    escape_control(expected.substr(0, line_bytes - 1)),
                    escape_control(text.substr(body)))};
  }
  return Decoder(text.substr(0, body)).decode();
}

}  // namespace paddle::snapshot
