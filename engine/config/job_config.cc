#include "engine/config/job_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/sections.h"

namespace paddle::config {

std::string JobConfig::sparse_layer() const {
  const auto found = std::ranges::find_if(
      layers, [](const LayerConfig& layer) { return layer.weight.sparse || layer.bias.sparse; });
  return found == layers.end() ? "" : found->name;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string in_folder(const std::string& folder, const std::string& name) {
  return name.starts_with('/') ? name : folder + "/" + name;
}

std::uint32_t read_count(TomlTable& table, std::string_view key, std::uint32_t fallback,
                         std::int64_t min, std::int64_t max) {
  return static_cast<std::uint32_t>(table.integer(key, fallback, min, max));
}

float read_float(TomlTable& table, std::string_view key, float fallback, float min, float max) {
  return static_cast<float>(table.number(key, static_cast<double>(fallback),
                                         static_cast<double>(min), static_cast<double>(max)));
}

std::optional<float> read_optional_float(TomlTable& table, std::string_view key, float min,
                                         float max) {
  if (!table.has(key)) return std::nullopt;
  return read_float(table, key, min, min, max);
}

void require(TomlTable& table, std::string_view key, std::string_view where) {
  if (!table.has(key)) table.fail(key, fmt::format("{} has no '{}'", where, key));
}

std::string listed(std::span<const std::string_view> names) {
  constexpr std::size_t kNamesListed = 40;
  const auto shown = names.first(std::min(names.size(), kNamesListed));
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (shown.size() < names.size()) {
    text += fmt::format(" and {} more", names.size() - shown.size());
  }
  return text;
}

std::vector<std::string> read_program(TomlTable table, std::string_view key) {
  std::vector<std::string> program = table.strings(key);
  const bool names_none = program.empty() || program.front().empty();
  if (table.has(key) && names_none) {
    table.fail(key, fmt::format("'{}' names no program", key),
               "it is a list: the program and its arguments");
  }
  return program;
}

namespace {

// The key by which the slot's numbers become others than those of the record; "": they do not.
std::string_view changing_key(const DataSlotConfig& slot) {
  if (slot.normalize != Normalize::kNone) return "normalize";
  if (slot.is_bucketed()) return "bucket";
  if (slot.missing_indicator) return "missing_indicator";
  return slot.missing == Missing::kMean || slot.missing == Missing::kValue ? "missing" : "";
}

// The use of the slot that needs it as it is in the record, "the label of layer 'cost'"; "": none.
std::string reader_of_raw(const std::string& slot, const JobConfig& job) {
  if (slot == job.data.weight) return "the weight of [data]";
  for (const LayerConfig& layer : job.layers) {
    if (layer.label == slot) return fmt::format("the label of layer '{}'", layer.name);
  }
  for (const LayerConfig& evaluator : job.evaluators) {
    if (evaluator.label == slot) return fmt::format("the label of evaluator '{}'", evaluator.name);
  }
  return "";
}

// Labels and weights are numbers with a meaning: costs and figures of other numbers would be wrong.
void check_raw_slots(TomlTable data, const JobConfig& job) {
  std::vector<TomlTable> tables = data.tables("slot");
  for (std::size_t i = 0; i < std::min(tables.size(), job.data.slots.size()); ++i) {
    const DataSlotConfig& slot = job.data.slots[i];
    const std::string_view key = changing_key(slot);
    const std::string reader = key.empty() ? "" : reader_of_raw(slot.name, job);
    if (reader.empty()) continue;
    tables[i].fail(key, fmt::format("'{}' changes slot '{}', which is {}", key, slot.name, reader),
                   "remove the key: labels and weights are read as they are; missing = \"refuse\" "
                   "makes a record without the number a bad one");
  }
}

// [[table]], which is for a program of the user's own and not for a network.
void read_tables_of_program(TomlTable& source, TomlTable& root, JobConfig& job) {
  job.tables = read_own_tables(source);
  if (root.has("layer") && !job.tables.empty()) {
    source.fail("table", "[[table]] and [[layer]] cannot be combined",
                "a network's tables are its layers of type embedding; a program of your own, "
                "[trainer] command, has [[table]] instead");
  }
}

// `code`: null, or the text whose sections [[table]], [optimizer] and [strategy] are read instead
// of those of `root`.
JobConfig read_sections(TomlTable root, const std::string& path, TomlTable* code = nullptr) {
  JobConfig job;
  const auto source = [&](const char* section) -> TomlTable& {
    return code != nullptr && code->has(section) ? *code : root;
  };
  job.name = root.string("name", "job");
  job.seed = static_cast<std::uint64_t>(root.integer("seed", 1));
  TomlTable trainer = root.table("trainer");
  job.command = read_program(trainer, "command");
  job.setup = read_program(trainer, "setup");
  job.requirements = trainer.string("requirements");
  if (!job.requirements.empty() && job.command.empty()) {
    trainer.fail("requirements",
                 "'requirements' needs a program of your own, but [trainer] has no 'command'",
                 "set it: command = [\"python3\", \"train.py\"]");
  }
  TomlTable data = root.table("data");
  read_tables_of_program(source("table"), root, job);
  const bool has_program = !job.command.empty() || !job.tables.empty() || code != nullptr;
  if (has_program && !root.has("layer")) {
    job.data.train = data.string("train");
    job.data.test = data.string("test");
  } else {
    job.data = read_data(data, folder_of(path));
    job.layers = read_layers(root, job.data, folder_of(path));
    job.evaluators = read_evaluators(root, job);
    check_raw_slots(data, job);
  }
  read_optimizer(source("optimizer").table("optimizer"), job);
  read_strategy(source("strategy").table("strategy"), job);
  job.train = read_train(root.table("train"), job);
  TomlTable notify = root.table("notify");
  const bool has_notify = root.has("notify");
  if (NotifyConfig read = read_notify(notify); has_notify) job.notify = std::move(read);
  if (has_notify) require(notify, "command", "[notify]");
  if (job.notify && job.notify->has("best") && job.train.best.empty()) {
    notify.fail("on", "the event 'best' needs train.best, the figure that is compared",
                "[train] best = \"cost\", or an evaluator such as \"auc\"");
  }
  return job;
}

// read_sections() for commands that run the job: tables need a program that trains them.
JobConfig read_whole_job(TomlTable root, const std::string& path) {
  JobConfig job = read_sections(root, path);
  if (!job.tables.empty() && job.command.empty()) {
    root.fail("table", "[[table]] needs a program that trains it, but [trainer] has no 'command'",
              "set it: command = [\"python3\", \"train.py\"]; a network of [[layer]] has its "
              "tables in layers of type embedding");
  }
  return job;
}

// Explains a failure to read `path`: users often name the file's folder, or are in a wrong folder.
Error with_path_of_job(Error error, const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::path(path) / "job.toml";
  if (std::filesystem::is_regular_file(file, ignored)) {
    error.message = path + " is a folder";
    error.hint = "name the file in it: --config=" + file.string();
  } else if (std::filesystem::status(path, ignored).type() ==
             std::filesystem::file_type::not_found) {
    error.hint = "name the job's file: --config=FOLDER/job.toml";
  }
  return error;
}

// The job.toml at `path` with the overrides applied. A key of the file that an override excludes is
// removed.
Result<TomlTable> open_job(const std::string& path, const std::vector<std::string>& overrides) {
  auto opened = TomlTable::read(path, overrides);
  if (!opened) return with_path_of_job(std::move(opened).error(), path);
  TomlTable root = *std::move(opened);
  root.table("train").prefer_override("batch_size", "batch_size_total");
  return root;
}

// The document as a text that read_job() reads again: what no program could read is refused here.
Result<std::string> text_of(const TomlTable& root, const std::string& path) {
  std::string text = root.resolved_text();
  if (text.size() > kConfigBytesMax) {
    return Error{Errc::kUsage,
                 fmt::format("{} would have {} bytes with its values in place, but at most {} are "
                             "allowed",
                             path, text.size(), kConfigBytesMax),
                 "move long lists into files"};
  }
  auto read_back = TomlTable::parse(text, "the text with all values in place");
  if (!read_back) return std::move(read_back).error().with(path);
  return text;
}

// Calls visit(table, key) for each key that names a file which the network depends on.
template <class Visit>
void for_job_files(TomlTable& root, const Visit& visit) {
  const auto visit_key = [&visit](TomlTable table, const char* key) {
    if (!table.string(key).empty()) visit(table, key);
  };
  for (const char* key : {"dictionary", "statistics"}) visit_key(root.table("data"), key);
  for (const TomlTable& layer : root.tables("layer")) visit_key(layer, "counts");
}

// The name for the file at `path`: the one it has in `files`, or a new one.
std::string name_of(const std::string& path, const std::string& stem, std::vector<JobFile>& files) {
  const auto known = std::ranges::find(files, path, &JobFile::path);
  if (known != files.end()) return known->name;
  const std::string_view ending = stem == "statistics" ? ".json" : ".txt";
  std::string name = fmt::format("{}{}", stem, ending);
  for (std::size_t i = 1; std::ranges::find(files, name, &JobFile::name) != files.end(); ++i)
    name = fmt::format("{}-{}{}", stem, i, ending);
  files.push_back({name, path});
  return name;
}

}  // namespace

Result<JobConfig> read_job(const std::string& path, const std::vector<std::string>& overrides,
                           const std::map<std::string, std::string>& files) {
  PADDLE_TRY(TomlTable root, open_job(path, overrides));
  if (!files.empty()) {
    for_job_files(root, [&](TomlTable& table, const char* key) {
      const auto found = files.find(table.string(key));
      if (found != files.end()) table.replace(key, found->second);
    });
  }
  JobConfig job = read_whole_job(root, path);
  PADDLE_TRY_STATUS(root.finish());
  return job;
}

Result<ResolvedJob> resolve_job(const std::string& path,
                                const std::vector<std::string>& overrides) {
  PADDLE_TRY(TomlTable root, open_job(path, overrides));
  ResolvedJob job{read_whole_job(root, path), root.written_text(), root.written_text()};
  PADDLE_TRY_STATUS(root.finish());
  if (!overrides.empty()) {
    PADDLE_TRY(job.text, text_of(root, path));
  }
  return job;
}

namespace {

// Sections that a program may give in its code.
constexpr auto kCodeSections = std::to_array<std::string_view>({"table", "optimizer", "strategy"});
constexpr const char* kCodeName = "tables from code";

// Whether `code` has the section that the override "optimizer.method=adam" belongs to.
bool is_for_code(const TomlTable& code, std::string_view one) {
  const std::string_view section = one.substr(0, one.find_first_of(".="));
  return std::ranges::find(kCodeSections, section) != kCodeSections.end() && code.has(section);
}

Status refuse_both(const TomlTable& root, const TomlTable& code) {
  for (const std::string_view section : kCodeSections) {
    if (!root.has(section) || !code.has(section)) continue;
    return Error{Errc::kUsage,
                 fmt::format("{}: the program gives '{}' too", root.location(section), section),
                 "keep it in one place: in job.toml, or in the program"};
  }
  return {};
}

}  // namespace

Result<JobConfig> read_tables_job(const std::string& path,
                                  const std::vector<std::string>& overrides,
                                  const std::string& text) {
  PADDLE_TRY(TomlTable code, TomlTable::parse(text, kCodeName));
  std::vector<std::string> of_code, of_file;
  for (const std::string& one : overrides)
    (is_for_code(code, one) ? of_code : of_file).push_back(one);
  PADDLE_TRY(code, TomlTable::parse(text, kCodeName, of_code));
  auto opened = path.empty() ? TomlTable::parse("", "job.toml", of_file) : open_job(path, of_file);
  if (!opened) return std::move(opened).error();
  TomlTable root = *std::move(opened);
  PADDLE_TRY_STATUS(refuse_both(root, code));
  JobConfig job = read_sections(root, path, &code);
  PADDLE_TRY_STATUS(root.finish());
  PADDLE_TRY_STATUS(code.finish());
  if (!job.tables.empty()) return job;
  return Error{Errc::kUsage,
               path.empty() ? "the program gives no table" : path + " has no [[table]]",
               "add one: [[table]] with name = \"user\" and width = 16; or give tables in the "
               "program"};
}

wire::ParameterSpec parameter_spec(const ParameterAttributes& attributes, std::string_view name,
                                   std::span<const std::uint64_t> dims, double initial_std) {
  wire::ParameterSpec spec;
  spec.set_name(std::string(name));
  for (const std::uint64_t dim : dims) spec.add_dims(dim);
  spec.set_sparse(attributes.sparse);
  spec.set_initial_mean(attributes.initial_mean);
  spec.set_initial_std(attributes.initial_std < 0 ? static_cast<float>(initial_std)
                                                  : attributes.initial_std);
  spec.set_learning_rate(attributes.learning_rate);
  if (attributes.l1) spec.set_l1(*attributes.l1);
  if (attributes.l2) spec.set_l2(*attributes.l2);
  if (attributes.clip_value) spec.set_clip_value(*attributes.clip_value);
  if (attributes.clip_norm) spec.set_clip_norm(*attributes.clip_norm);
  spec.set_is_static(attributes.is_static);
  if (attributes.sparse) *spec.mutable_table() = attributes.table;
  return spec;
}

std::vector<wire::ParameterSpec> table_parameters(const JobConfig& job) {
  std::vector<wire::ParameterSpec> parameters;
  for (const TableConfig& table : job.tables) {
    parameters.push_back(parameter_spec(table.weight, table.name,
                                        std::to_array<std::uint64_t>({0, table.width}),
                                        1.0 / std::sqrt(static_cast<double>(table.width))));
  }
  return parameters;
}

std::vector<std::string> override_keys(const std::string& path) {
  auto root = TomlTable::read(path);
  if (!root) root = TomlTable::parse("", path);
  if (!root) return {};
  read_sections(*root, path);
  return root->known_keys();
}

Result<JobDescription> describe_job(std::string_view text, const std::string& path) {
  PADDLE_TRY(TomlTable root, TomlTable::parse(text, path));
  JobDescription description;
  for_job_files(root, [&](TomlTable& table, const char* key) {
    const std::string file = in_folder(folder_of(path), table.string(key));
    table.replace(key, name_of(file, key, description.files));
  });
  PADDLE_TRY(description.text, text_of(root, path));
  return description;
}

}  // namespace paddle::config
