#include "engine/snapshot/manifest_format.h"

#include <charconv>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/safe_path.h"
#include "base/text.h"
#include "base/version.h"
#include "engine/optim/optimizer.h"
#include "engine/parameter/parameter_set.h"

namespace paddle::snapshot {
namespace {

Error malformed(std::string_view line) {
  return Error{Errc::kData,
               fmt::format("MANIFEST: unexpected line '{}'", escape_control(line.substr(0, 200)))};
}

std::string crc_line(std::string_view text) {
  return fmt::format("crc32c {:08x}\n", crc32c(as_bytes(text)));
}

// Parser of the fields " key=value" of a line; complete() tells whether all of them matched.
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
  // True when an optional field comes next.
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
    text += fmt::format("file size={} crc32c={:08x} name={}\n", file.size, file.crc, file.name);
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
    if (!format.complete()) return malformed(line_);
    if (version != kSnapshotFormat) {
      return Error{Errc::kVersion, fmt::format("MANIFEST: format {}, this program reads {}",
                                               version, kSnapshotFormat)};
    }
    PADDLE_TRY_STATUS(decode_info(manifest.info));
    while (!rest_.empty()) {
      PADDLE_TRY(ManifestParameter parameter, decode_parameter(manifest.info.base.has_value()));
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
    info.pass = progress.number<std::uint64_t>("pass");
    info.step = progress.number<std::uint64_t>("step");
    info.seed = progress.number<std::uint64_t>("seed");
    if (progress.has("samples")) info.samples = progress.number<std::uint64_t>("samples");
    if (!progress.complete()) return malformed(line_);
    if (rest_.starts_with("base ")) {
      FieldParser base(line(), "base");
      info.base.emplace();
      info.base->crc = base.parse<std::uint32_t>(base.text("crc32c"), 16);
      info.base->name = base.name();
      if (!base.complete() || info.base->name.find('/') != std::string::npos ||
          !SafePath::parse(info.base->name)) {
        return malformed(line_);
      }
    }
    FieldParser fields(line(), "optimizer");
    info.optimizer.set_method(std::string(fields.text("method")));
    info.optimizer.set_learning_rate(fields.number<float>("learning_rate"));
    wire::Optimizer& optimizer = info.optimizer;
    for (const optim::Option& option : optim::options()) {
      if (fields.has(option.name)) (optimizer.*option.set)(fields.number<float>(option.name));
    }
    if (fields.has("centered")) optimizer.set_centered(fields.number<float>("centered") != 0);
    if (fields.has("average_window")) {
      optimizer.mutable_average()->set_window(fields.number<float>("average_window"));
    }
    if (!fields.complete()) return malformed(line_);
    while (rest_.starts_with("trainer ")) {
      FieldParser trainer(line(), "trainer");
      const auto id = trainer.number<std::uint64_t>("id");
      const auto cursor = trainer.number<std::uint64_t>("cursor");
      if (trainer.has("batches")) {
        info.pass_batches.resize(info.trainer_cursors.size());
        info.pass_batches.push_back(trainer.number<std::uint64_t>("batches"));
      }
      if (!trainer.complete() || id != info.trainer_cursors.size()) return malformed(line_);
      info.trainer_cursors.push_back(cursor);
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
      entry.crc = file.parse<std::uint32_t>(file.text("crc32c"), 16);
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

std::string state_file_name(const std::string& parameter) {
  return parameter + ".state";
}

std::string rows_file_name(const std::string& parameter, std::size_t number) {
  return fmt::format("{}.sparse-{:05}", parameter, number);
}

std::string removed_file_name(const std::string& parameter) {
  return parameter + ".sparse-removed";
}

std::string encode_manifest(const Manifest& manifest) {
  const SnapshotInfo& info = manifest.info;
  std::string text =
      fmt::format("snapshot format={} engine={}\n", kSnapshotFormat, kProgramVersion);
  text += fmt::format("progress pass={} step={} seed={} samples={}\n", info.pass, info.step,
                      info.seed, info.samples);
  if (info.base)
    text += fmt::format("base crc32c={:08x} name={}\n", info.base->crc, info.base->name);
  text += encode_optimizer(info.optimizer);
  for (std::size_t i = 0; i < info.trainer_cursors.size(); ++i) {
    text += fmt::format("trainer id={} cursor={}", i, info.trainer_cursors[i]);
    if (i < info.pass_batches.size()) text += fmt::format(" batches={}", info.pass_batches[i]);
    text += "\n";
  }
  for (const ManifestParameter& parameter : manifest.parameters)
    text += encode_parameter(parameter, info.base.has_value());
  return text + crc_line(text);
}

Result<Manifest> decode_manifest(std::string_view text) {
  const std::size_t crc_bytes = crc_line({}).size();
  const std::size_t body = text.size() < crc_bytes ? 0 : text.size() - crc_bytes;
  const std::string expected = crc_line(text.substr(0, body));
  if (text.substr(body) != expected) {
    return Error{
        Errc::kData,
        fmt::format("MANIFEST: expected last line '{}', found '{}': it is corrupt or cut off",
                    escape_control(expected.substr(0, crc_bytes - 1)),
                    escape_control(text.substr(body)))};
  }
  return Decoder(text.substr(0, body)).decode();
}

}  // namespace paddle::snapshot
