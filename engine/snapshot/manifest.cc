#include "engine/snapshot/manifest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/safe_path.h"
#include "base/text.h"
#include "base/version.h"
#include "engine/math/optimizer.h"
#include "engine/table/parameter_set.h"

namespace paddle::snapshot {
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
  bool good() const { return good_; }
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
constexpr std::string_view kModelFolder = "model/";
constexpr std::string_view kLastLine = "sha256 ";

// The last line: a checksum of the text before it.
std::string last_line(std::string_view text) {
  return fmt::format("{}{}\n", kLastLine, to_hex(sha256_of(as_bytes(text))));
}

// Reads "snapshot format=4 ...". std::nullopt: the text begins with another line.
std::optional<std::uint32_t> format_of(std::string_view text) {
  FieldParser fields(text.substr(0, text.find('\n')), "snapshot");
  const auto format = fields.number<std::uint32_t>("format");
  return fields.good() ? std::optional(format) : std::nullopt;
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
        fmt::format("file size={} sha256={} name={}\n", file.size, to_hex(file.sha256), file.name);
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
    text += fmt::format("base sha256={} name={}\n", to_hex(info.base->sha256), info.base->name);
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
    format.text("format");
    format.text("engine");
    manifest.id = format.hex<sizeof(SnapshotId)>("id");
    if (!format.complete()) return malformed(line_);
    PADDLE_TRY_STATUS(decode_info(manifest.info));
    PADDLE_TRY_STATUS(decode_model(manifest.model));
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
    info.samples = progress.count("samples");
    if (!progress.complete()) return malformed(line_);
    if (rest_.starts_with("base ")) {
      FieldParser base(line(), "base");
      info.base.emplace();
      info.base->sha256 = base.hex<sizeof(Sha256Digest)>("sha256");
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
      entry.size = file.count("size", kStateBytesMax);
      entry.sha256 = file.hex<sizeof(Sha256Digest)>("sha256");
      entry.name = file.name();
      const bool is_known = std::ranges::find(files, entry.name, &FileEntry::name) != files.end();
      if (!file.complete() || !is_model_file_name(entry.name) || is_known ||
          entry.size > model_file_bytes_max(entry.name) || files.size() == kModelFilesMax) {
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
    if (auto valid = parameter::validate(spec); !valid)
      return Error{Errc::kData, "MANIFEST: " + valid.error().message};
    if (files < (has_removed ? 2 : 1) || (!spec.sparse() && files != 2) ||
        parameter.state_width > kStateWidthMax || (!spec.sparse() && spec.has_table())) {
      return malformed(line_);
    }
    for (std::uint64_t i = 0; i < files; ++i) {
      FieldParser file(line(), "file");
      FileEntry entry;
      entry.size = file.number<std::uint64_t>("size");
      entry.sha256 = file.hex<sizeof(Sha256Digest)>("sha256");
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

  std::string_view rest_;
  std::string_view line_;
};

}  // namespace

std::vector<FileEntry> Manifest::files() const {
  std::vector<FileEntry> all = model;
  for (const ManifestParameter& parameter : parameters)
    all.insert(all.end(), parameter.files.begin(), parameter.files.end());
  return all;
}

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

std::string encode_manifest(const Manifest& manifest) {
  std::string text = fmt::format("snapshot format={} engine={} id={}\n", kSnapshotFormat,
                                 kProgramVersion, to_hex(manifest.id));
  text += encode_info(manifest.info);
  for (const FileEntry& file : manifest.model) {
    text +=
        fmt::format("model size={} sha256={} name={}\n", file.size, to_hex(file.sha256), file.name);
  }
  for (const ManifestParameter& parameter : manifest.parameters)
    text += encode_parameter(parameter, manifest.info.base.has_value());
  return text + last_line(text);
}

Result<Manifest> decode_manifest(std::string_view text) {
  const std::size_t line_bytes = last_line({}).size();
  const std::size_t body = text.size() < line_bytes ? 0 : text.size() - line_bytes;
  const std::string expected = last_line(text.substr(0, body));
  const bool is_whole = text.substr(body) == expected;
  // The last line of another format may be another one. A damaged first line is no other format.
  const bool may_differ = is_whole || !text.substr(body).starts_with(kLastLine);
  if (const auto format = format_of(text); format && *format != kSnapshotFormat && may_differ) {
    return Error{
        Errc::kVersion,
        fmt::format("MANIFEST: it has snapshot format {}, but this program, of release {}, "
                    "reads format {}",
                    *format, kProgramVersion, kSnapshotFormat),
        "use the release that wrote it, engine= in the first line of MANIFEST, or train "
        "from the beginning"};
  }
  if (!is_whole) {
    return Error{
        Errc::kData,
        fmt::format("MANIFEST: expected last line '{}', found '{}': it is corrupt or cut off",
                    escape_control(expected.substr(0, line_bytes - 1)),
                    escape_control(text.substr(body)))};
  }
  return Decoder(text.substr(0, body)).decode();
}

}  // namespace paddle::snapshot
