#include "engine/snapshot/manifest_format.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/safe_path.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/version.h"
#include "engine/optim/optimizer.h"
#include "engine/parameter/parameter_set.h"
#include "engine/snapshot/manifest_fields.h"

namespace paddle::snapshot {
namespace {

Error malformed(std::string_view line) {
  return Error{Errc::kData,
               fmt::format("MANIFEST: unexpected line '{}'", escape_control(line.substr(0, 200)))};
}

constexpr std::uint64_t kPassesMax = UINT32_MAX;  // train.passes is a u32
constexpr std::uint32_t kFirstFormat = 1;
constexpr std::uint32_t kBareFormat = 2;   // without a description of the model
constexpr std::uint32_t kModelFormat = 3;  // with one
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
      return Error{Errc::kVersion, fmt::format("MANIFEST: format {}, this program reads {} to {}",
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
                     fmt::format("MANIFEST: parameter '{}' is in it twice", parameter.spec.name())};
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
      return malformed("order without a place of every trainer");
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

  // Snapshots without a description had no files of two of the names that are kept for it.
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
