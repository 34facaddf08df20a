// `paddle export`: lists the parameters of a snapshot, or writes its parameters or its network in
// formats of other programs.
#include <algorithm>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "base/named_rows.h"
#include "base/text.h"
#include "engine/commands/command.h"
#include "engine/commands/model_flags.h"
#include "engine/math/allocator.h"
#include "engine/model/onnx_model.h"
#include "engine/snapshot/export_formats.h"
#include "engine/snapshot/export_source.h"

namespace paddle::commands {
namespace {

constexpr const char* kOnnx = "onnx";  // of a network; the other formats are of parameters

struct ExportFlags {
  std::string snapshot;
  std::string parameter;
  std::string format;  // "": text
  std::string output;
  std::string dictionary;
  std::string layer;
  inference::DescriptionSource source;
  bool list = false;
  bool json = false;

  bool is_network() const { return format == kOnnx; }
  bool names_network() const {
    return !(layer + source.config).empty() || !source.overrides.empty() || !source.files.empty();
  }
};

struct Listed {
  std::string name;
  bool is_table = false;
  std::vector<std::uint64_t> shape;  // of a table {rows, width}
  std::uint64_t bytes = 0;           // of values
};

Result<std::vector<Listed>> list_parameters(const snapshot::SnapshotReader& snapshot) {
  std::vector<Listed> all;
  for (const wire::ParameterSpec& spec : snapshot.parameters()) {
    PADDLE_TRY(const std::vector<std::uint64_t> shape, exporting::shape_of(snapshot, spec));
    std::uint64_t bytes = sizeof(float);
    for (const std::uint64_t dim : shape) bytes *= dim;
    all.push_back({spec.name(), spec.sparse(), shape, bytes});
  }
  return all;
}

void print_list(const std::vector<Listed>& all, bool json) {
  if (json) {
    JsonArray parameters;
    for (const Listed& one : all) {
      JsonObject fields;
      fields.add("name", one.name).add("kind", one.is_table ? "table" : "dense");
      fields.add("shape", std::span<const std::uint64_t>(one.shape)).add("bytes", one.bytes);
      parameters.add(fields);
    }
    std::cout << JsonObject().add("parameters", parameters).text() << '\n';
    return;
  }
  std::size_t name_width = 0;
  for (const Listed& one : all) name_width = std::max(name_width, one.name.size());
  for (const Listed& one : all) {
    std::cout << escape_lines(fmt::format("{:<{}}  {}  {:>20}  {:>14} bytes\n", one.name,
                                          name_width, one.is_table ? "table" : "dense",
                                          fmt::format("{}", fmt::join(one.shape, " x ")),
                                          one.bytes));
  }
}

bool asks_for_list(const ExportFlags& flags) {
  return flags.list || (flags.parameter + flags.format + flags.output).empty();
}

// Runs before the snapshot is read, which may take long. Null: the flags ask for a list, or for the
// network.
Result<const exporting::Format*> check_flags(const ExportFlags& flags) {
  if (flags.json && !asks_for_list(flags))
    return Error{Errc::kUsage, "--json applies only to the list", "add --list"};
  if (!flags.dictionary.empty() && flags.format != "vec") {
    return Error{Errc::kUsage, "--dictionary applies only to --format=vec",
                 "other formats contain ids instead of words"};
  }
  if (flags.names_network() && !flags.is_network()) {
    return Error{Errc::kUsage,
                 "--layer, --config, --set and --model_file apply only to --format=onnx",
                 "other formats contain parameters, not the network"};
  }
  if (flags.is_network() && !flags.parameter.empty()) {
    return Error{Errc::kUsage, "--format=onnx exports the network, not one parameter",
                 "leave out --parameter, or export that parameter with --format=npy"};
  }
  if (asks_for_list(flags) || flags.is_network()) return nullptr;
  if (flags.parameter.empty() && flags.format.empty()) {
    return Error{Errc::kUsage, "--parameter or --format is missing",
                 "--parameter=NAME prints one parameter as text; --format=npz exports all"};
  }
  const std::string name = flags.format.empty() ? "text" : flags.format;
  const exporting::Format* const format = find_row(exporting::formats(), name);
  if (format == nullptr) {
    return Error{
        Errc::kUsage, fmt::format("unknown --format '{}'", name),
        fmt::format("use one of {}, {}", fmt::join(row_names(exporting::formats()), ", "), kOnnx)};
  }
  if (flags.parameter.empty() && !format->takes_all) {
    return Error{Errc::kUsage, fmt::format("--format={} exports one parameter", name),
                 "choose it with --parameter=NAME; --list shows the names"};
  }
  if (flags.output.empty() && format->needs_file)
    return Error{Errc::kUsage, fmt::format("--format={} needs --output=FILE", name),
                 "this format is not written in order, so it cannot go to stdout"};
  return format;
}

Result<exporting::Sink> open_sink(const std::string& output, const exporting::Format* format) {
  PADDLE_TRY(exporting::Sink sink, exporting::Sink::open(output));
  if (format == nullptr || sink.is_file() || !format->needs_file) return sink;
  return Error{Errc::kUsage,
               fmt::format("--format={}: {} is not a regular file", format->name, output),
               "--format=safetensors has the same arrays and can be piped"};
}

Status write(const ExportFlags& flags, const exporting::Format& format,
             const snapshot::SnapshotReader& snapshot, exporting::Sink& sink) {
  PADDLE_TRY(const auto specs, exporting::choose_parameters(snapshot, flags.parameter));
  PADDLE_TRY_STATUS(exporting::check_names(format, specs));
  exporting::ExportJob job{.sources = {}, .words = {}};
  if (format.name == "vec") {
    PADDLE_TRY(job.words, exporting::words_of(snapshot, specs.front(), flags.dictionary));
  }
  const std::string scratch = exporting::scratch_folder(sink.is_file() ? flags.output : "");
  std::vector<exporting::Source> sources;
  for (const wire::ParameterSpec& spec : specs) {
    PADDLE_TRY(exporting::Source source, exporting::Source::open(snapshot, spec, scratch));
    if (specs.size() > 1) PADDLE_TRY_STATUS(source.seal());
    sources.push_back(std::move(source));
  }
  job.sources = sources;
  PADDLE_TRY_STATUS(format.write(job, sink));
  return sink.finish();
}

Status write_network(const ExportFlags& flags, const snapshot::SnapshotReader& snapshot,
                     exporting::Sink& sink) {
  inference::DescriptionSource source = flags.source;
  source.allows_pipe_command = true;  // no record is read, so the command does not run
  PADDLE_TRY(const inference::ModelDescription description,
             inference::read_description(snapshot, source));
  const onnx::ModelOptions options{
      .layer = flags.layer,
      .scratch = exporting::scratch_folder(sink.is_file() ? flags.output : "")};
  PADDLE_TRY(const std::string model, onnx::network_model(snapshot, description.job, options));
  PADDLE_TRY_STATUS(sink.write(model));
  return sink.finish();
}

Status run_export(const ExportFlags& flags) {
  end_when_out_of_memory("export", "export fewer parameters at a time, or on a larger machine");
  PADDLE_TRY(const exporting::Format* const format, check_flags(flags));
  constexpr const char* kExample = "paddle export --snapshot=output/pass-00000 --parameter=_proj";
  if (asks_for_list(flags)) {
    PADDLE_TRY(const auto snapshot, open_snapshot(flags.snapshot, kExample));
    PADDLE_TRY(const auto all, list_parameters(snapshot));
    print_list(all, flags.json);
    return {};
  }
  PADDLE_TRY(exporting::Sink sink, open_sink(flags.output, format));
  PADDLE_TRY(const auto snapshot, open_snapshot(flags.snapshot, kExample));
  Status written = format == nullptr ? write_network(flags, snapshot, sink)
                                     : write(flags, *format, snapshot, sink);
  if (!written && written.error().code == Errc::kInterrupted) return {};  // the reader is gone
  return written;
}

std::function<Status()> declare_export(FlagSet& flags) {
  const auto options = std::make_shared<ExportFlags>();
  flags.text("snapshot", "a pass-0000N folder", options->snapshot);
  flags.boolean("list", "list the parameters: kind, shape, bytes", options->list);
  flags.boolean("json", "print the list as one JSON object", options->json);
  flags.text("parameter", "parameter to export; without it npz and safetensors take all",
             options->parameter);
  flags.text("format",
             "format of the output: text (the default), vec, npy, npz, safetensors or onnx",
             options->format);
  flags.text("output", "file to write; default: stdout", options->output);
  flags.text("dictionary",
             "for vec: file with a word a line, in place of the snapshot's dictionary",
             options->dictionary);
  flags.text("layer", "for onnx: layer whose outputs are exported (default: the score)",
             options->layer);
  declare_description(flags, options->source);
  return [options] { return run_export(*options); };
}

}  // namespace

const Command kExportCommand{
    "export", "write the parameters or the network for other programs",
    R"(usage: paddle export --snapshot=DIR [--list | --parameter=NAME] [flags]

text         "<row id> <value> <value> ..." a line
vec          the text format of word2vec, with the words of the job's dictionary
npy          numpy.load: an array; a table as records of "id" and "values"
npz          numpy.load: every parameter by its name, a table as "<name>.ids"
             and "<name>.values"
safetensors  the same names
onnx         the network, from the slots of a record to its score

examples:
  paddle export --snapshot=output/pass-00002 --list
  paddle export --snapshot=output/pass-00002 --parameter=_proj --format=vec
  paddle export --snapshot=output/pass-00002 --format=npz --output=model.npz
  paddle export --snapshot=output/pass-00002 --format=onnx --output=model.onnx
)",
    declare_export};

}  // namespace paddle::commands
