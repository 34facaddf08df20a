#include "engine/model/description.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/config/job_config.h"
#include "engine/config/toml_reader.h"

namespace paddle::inference {
namespace {

const std::string kFolder = "model/";
const std::string kJobFile = kFolder + "job.toml";
const std::string kSlotsFile = kFolder + "slots.json";
const std::string kHashEnding = ".sha256";

Result<snapshot::ModelFile> model_file(const config::JobFile& file, std::size_t bytes_max) {
  if (auto content = read_file(file.path, bytes_max))
    return snapshot::ModelFile{kFolder + file.name, *std::move(content)};
  PADDLE_TRY(const Sha256Digest digest, sha256_of_file(file.path));
  return snapshot::ModelFile{kFolder + file.name + kHashEnding,
                             fmt::format("{}  {}\n", to_hex(digest), file.name)};
}

// Paths of the files that the source gives, by the names of the files that they replace.
Result<std::map<std::string, std::string>> given_files(const DescriptionSource& source) {
  std::map<std::string, std::string> paths;
  for (const std::string& given : source.files) {
    const std::size_t equals = given.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == given.size()) {
      return Error{Errc::kUsage, fmt::format("'{}' is not NAME=PATH", given),
                   "for example --model_file=dictionary.txt=data/dictionary.txt"};
    }
    const std::string path = given.substr(equals + 1);
    // The snapshot's job.toml is in another directory, so the path must be absolute.
    paths[given.substr(0, equals)] = std::filesystem::absolute(path).string();
  }
  return paths;
}

// SHA-256 of the files that the network depends on, by name, and the names of those that the
// snapshot lacks.
struct NeededFiles {
  std::map<std::string, std::string> hashes;
  std::vector<std::string> missing;
};

Result<NeededFiles> needed_files(const snapshot::SnapshotReader& snapshot) {
  NeededFiles needed;
  for (const snapshot::FileEntry& file : snapshot.manifest().model) {
    if (!file.name.starts_with(kFolder) || file.name == kJobFile || file.name == kSlotsFile)
      continue;
    std::string name = file.name.substr(kFolder.size());
    if (!name.ends_with(kHashEnding)) {
      needed.hashes.emplace(name, to_hex(file.sha256));
      continue;
    }
    name.resize(name.size() - kHashEnding.size());
    PADDLE_TRY(const auto line, snapshot.read_model_file(file.name));
    if (needed.hashes.emplace(name, line->substr(0, line->find(' '))).second)
      needed.missing.push_back(name);
  }
  return needed;
}

// A file that was too large must be given; a given file must be the one that training read.
Status check_files(const snapshot::SnapshotReader& snapshot, const NeededFiles& needed,
                   const std::map<std::string, std::string>& given) {
  for (const std::string& name : needed.missing) {
    if (given.contains(name)) continue;
    return Error{Errc::kUsage,
                 fmt::format("{} has only the hash of its model's {}, which was too large",
                             snapshot.directory(), name),
                 fmt::format("name the file: --model_file={}=PATH", name)};
  }
  for (const auto& [name, path] : given) {
    const auto expected = needed.hashes.find(name);
    if (expected == needed.hashes.end()) {
      std::vector<std::string> names;
      for (const auto& [known, hash] : needed.hashes) names.push_back(known);
      return Error{Errc::kUsage,
                   fmt::format("{} does not depend on a file '{}'", snapshot.directory(), name),
                   names.empty() ? "it depends on no files"
                                 : fmt::format("it depends on {}", fmt::join(names, ", "))};
    }
    PADDLE_TRY(const Sha256Digest digest, sha256_of_file(path));
    if (expected->second == to_hex(digest)) continue;
    return Error{Errc::kData,
                 fmt::format("{} is not the {} that {} was trained with: its SHA-256 is {}", path,
                             name, snapshot.directory(), to_hex(digest)),
                 fmt::format("the snapshot's is {}", expected->second)};
  }
  return {};
}

// The snapshot's own job.toml, with this text and at `path`, may name only files of the snapshot.
Status check_names(const snapshot::SnapshotReader& snapshot, const NeededFiles& needed,
                   std::string_view text, const std::string& path) {
  PADDLE_TRY(const config::JobDescription own, config::describe_job(text, path));
  const std::string folder = config::folder_of(path) + "/";
  for (const config::JobFile& file : own.files) {
    const bool is_below = file.path.starts_with(folder);
    if (is_below && needed.hashes.contains(file.path.substr(folder.size()))) continue;
    return Error{Errc::kData, fmt::format("{} names {}, which is not a file of the snapshot",
                                          kJobFile, file.path)}
        .with(snapshot.directory());
  }
  return {};
}

// Whether --set gives a program of the user's own.
bool sets_program(const std::vector<std::string>& overrides, std::string_view key) {
  auto root = config::TomlTable::parse("", "", overrides);
  return root && root->table("data").has(key);
}

// A snapshot may come from an untrusted source: a program that it names runs only if the user
// allows it.
Status check_program(const snapshot::SnapshotReader& snapshot, const config::JobConfig& job,
                     const DescriptionSource& source) {
  if (source.allows_pipe_command) return {};
  const auto check = [&](std::string_view key, const std::vector<std::string>& program) -> Status {
    if (program.empty() || sets_program(source.overrides, key)) return {};
    return Error{Errc::kUsage,
                 fmt::format("{} would run the program of its data.{}: '{}'", snapshot.directory(),
                             key, fmt::join(program, "' '")),
                 "if you trust the source of the snapshot, add --allow_pipe_command to run it"};
  };
  PADDLE_TRY_STATUS(check("command", job.data.command));
  return check("pipe_command", job.data.pipe_command);
}

}  // namespace

// {"format":"criteo","slots":[{"name":"label","type":"id"},{"name":"dense","type":"float",
//  "width":13},{"name":"words","type":"ids"}]}
// The slots are those of a record in a file, before its numbers are prepared. Each id of the type
// "weighted_ids" has a weight; "hash" and "hashes" hold texts, whose hashes are the ids; "labels"
// are the names of the ids 0, 1, ...
JsonObject slots_json(const config::DataConfig& data) {
  JsonArray slots;
  for (const config::SlotConfig& slot : config::raw_slots(data)) {
    JsonObject fields;
    fields.add("name", slot.name);
    const std::string_view type = slot.width > 0  ? "float"
                                  : slot.hashed   ? slot.many ? "hashes" : "hash"
                                  : slot.weighted ? "weighted_ids"
                                  : slot.many     ? "ids"
                                                  : "id";
    fields.add("type", type);
    if (slot.width > 0) fields.add("width", slot.width);
    JsonArray labels;
    for (const std::string& label : slot.labels) labels.add(label);
    if (!slot.labels.empty()) fields.add("labels", labels);
    const auto in_file = std::ranges::find(data.slots, slot.name, &config::DataSlotConfig::name);
    if (data.format == "csv" && in_file != data.slots.end()) {
      JsonArray columns;
      for (const std::uint32_t column : in_file->columns) columns.add(data.columns[column]);
      fields.add("columns", columns);
    }
    slots.add(fields);
  }
  return JsonObject().add("format", data.format).add("slots", slots);
}

Result<std::vector<snapshot::ModelFile>> describe_model(const config::ResolvedJob& job,
                                                        const std::string& path,
                                                        std::size_t bytes_max) {
  PADDLE_TRY(config::JobDescription description, config::describe_job(job.text, path));
  std::vector<snapshot::ModelFile> files{{"path.txt", "job.toml"},
                                         {"job.toml", job.written},
                                         {kJobFile, std::move(description.text)},
                                         {kSlotsFile, slots_json(job.config.data).text() + "\n"}};
  if (files.size() + description.files.size() > snapshot::kModelFilesMax) {
    return Error{Errc::kUsage,
                 fmt::format("{}: its network depends on {} files; snapshots keep {}", path,
                             description.files.size(), snapshot::kModelFilesMax - files.size()),
                 "layers with the same counts can share a file"};
  }
  for (const config::JobFile& file : description.files) {
    PADDLE_TRY(snapshot::ModelFile made, model_file(file, bytes_max));
    files.push_back(std::move(made));
  }
  return files;
}

Result<ModelDescription> read_description(const snapshot::SnapshotReader& snapshot,
                                          const DescriptionSource& source) {
  std::string path = source.config;
  PADDLE_TRY(const auto given, given_files(source));
  if (path.empty()) {
    path = snapshot.directory() + "/" + kJobFile;
    PADDLE_TRY(const auto text, snapshot.read_model_file(kJobFile));
    if (!text) {
      return Error{Errc::kUsage,
                   fmt::format("{} does not describe its network: an earlier release, or a program "
                               "of your own, has saved it",
                               snapshot.directory()),
                   "--config=FILE names the job.toml of its job"};
    }
    PADDLE_TRY(const NeededFiles needed, needed_files(snapshot));
    PADDLE_TRY_STATUS(check_files(snapshot, needed, given));
    PADDLE_TRY_STATUS(check_names(snapshot, needed, *text, path));
  } else if (!given.empty()) {
    return Error{Errc::kUsage, "--model_file cannot be combined with --config",
                 "--config names its files itself; replace one with --set=data.dictionary=PATH"};
  }
  ModelDescription description;
  PADDLE_TRY(description.job, config::read_job(path, source.overrides, given));
  if (source.config.empty()) PADDLE_TRY_STATUS(check_program(snapshot, description.job, source));
  if (!description.job.has_network()) {
    return Error{Errc::kUsage, fmt::format("{} has no [[layer]]", path),
                 "only models of paddle train can be tested and used for predictions"};
  }
  if (config::lacks_statistics(description.job.data)) {
    return Error{Errc::kUsage, fmt::format("{} names no [data] statistics", path),
                 "it must be the file that training used: --set=data.statistics=FILE"};
  }
  const std::string& dictionary = description.job.data.dictionary;
  if (dictionary.empty()) return description;
  PADDLE_TRY(description.dictionary,
             data::Dictionary::read(config::in_folder(config::folder_of(path), dictionary)));
  return description;
}

}  // namespace paddle::inference
