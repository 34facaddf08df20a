// The provider of kind "command": programs of the user that create, list and destroy the nodes.
// templates/providers/README.md has what they promise.
#include <time.h>

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_reader.h"
#include "base/text.h"
#include "cli/cluster/program.h"
#include "cli/cluster/provider.h"
#include "cli/console/console.h"

namespace paddle::cli {
namespace {

constexpr std::chrono::seconds kCommandCreateTimeout{900};
constexpr std::chrono::seconds kListTimeout{60};
constexpr std::size_t kListBytesMax = 16U << 20U;
constexpr std::size_t kProgramWordsMax = 256;
constexpr std::string_view kOwnPrefix = "PROVIDER_";
constexpr std::size_t kHeadMax = 80;  // shown of a line that is not understood

// "2026-11-27T10:00:00Z", also with a fraction of a second or "+00:00"; 0: another text.
std::int64_t unix_seconds_of(const std::string& text) {
  tm parts{};
  const char* const end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  return end == nullptr ? 0 : static_cast<std::int64_t>(::timegm(&parts));
}

// The value as TOML; "" if it is none of text, number, true, false and a list of texts.
std::string toml_value(const JsonValue& value) {
  if (value.is_text()) return toml_text(value.text());
  if (value.is_number()) return std::string(value.text());
  if (value.is_bool()) return value.truth() ? "true" : "false";
  if (!value.is_list()) return "";
  std::vector<std::string> texts;
  const JsonValue* item = value.items();
  for (std::size_t i = 0; i < value.size(); ++i, item = item->next()) {
    if (!item->is_text()) return "";
    texts.emplace_back(item->text());
  }
  return toml_list(texts);
}

Error bad_line(std::size_t number, std::string_view line, std::string_view why) {
  const std::string shown = escape_control(line.substr(0, kHeadMax));
  return {Errc::kData, fmt::format("[provider] list, line {}: {}: {}", number, why, shown),
          "it prints a JSON object for each node, such as {\"name\": \"lab-0\", \"host\": "
          "\"10.0.0.4\"}; see templates/providers/README.md"};
}

// Reads a line of `list`.
Result<ProvidedNode> read_node_line(JsonReader& reader, std::string_view line, std::size_t number) {
  if (const Status read = reader.read(line); !read)
    return bad_line(number, line, read.error().message);
  ProvidedNode node;
  const JsonValue& object = reader.object();
  const JsonValue* key = object.items();
  for (std::size_t i = 0; i < object.size(); ++i, key = key->next()->next()) {
    const JsonValue& value = *key->next();
    const std::string name(key->text());
    if (name.starts_with("x_") || value.is_null()) continue;
    if (name == "price_per_hour" && value.is_number()) {
      node.hourly = value.number();
    } else if (name == "currency" && value.is_text()) {
      node.currency = value.text();
    } else if (name == "created" && value.is_text()) {
      node.created_unix_s = unix_seconds_of(std::string(value.text()));
      if (node.created_unix_s == 0)
        return bad_line(number, line, "`created` is no time such as 2026-01-31T12:00:00Z");
    } else if (name == "state" && value.is_text()) {
      node.state = value.text();
    } else if (std::string text = toml_value(value); !text.empty()) {
      if (name == "name" && value.is_text()) node.name = value.text();
      node.table += fmt::format("{} = {}\n", toml_text(name), text);
    } else {
      return bad_line(number, line, fmt::format("'{}' has a value of the wrong type", name));
    }
  }
  if (node.name.empty()) return bad_line(number, line, "the node has no name");
  if (!node.runs()) node.table.clear();
  return node;
}

class CommandProvider final : public Provider {
 public:
  CommandProvider(config::TomlTable& table, const ProvidedCluster& cluster)
      : folder_(cluster.folder),
        create_(read_program(table, "create")),
        list_(read_program(table, "list")),
        destroy_(read_program(table, "destroy")),
        nodes_(read_nodes_wanted(table)),
        timeout_(read_create_timeout(table, kCommandCreateTimeout)) {
    read_variables(table, "env", kOwnPrefix, "AWS_REGION=eu-west-1", environment_);
    environment_["PROVIDER_CLUSTER"] = cluster.name;
    environment_["PROVIDER_NODES"] = std::to_string(nodes_);
  }

  std::string describe() const override {
    return fmt::format("{}, by {}", counted(nodes_, "node"),
                       create_.empty() ? "" : create_.front());
  }

  Result<std::string> plan(const ProviderWork& work) const override {
    ProgramCall call = call_of(create_, work);
    call.environment["PROVIDER_DRY_RUN"] = "1";
    call.timeout = kListTimeout;
    PADDLE_TRY(const ProgramEnd end, run_program(call));
    if (!end.ok()) return failure("create (with PROVIDER_DRY_RUN=1)", create_, end);
    return end.output;
  }

  Status create(const ProviderWork& work) const override {
    std::vector<std::string> causes;  // "lab-2: InsufficientInstanceCapacity: ..."
    JsonReader reader({"name", "error"});
    ProgramCall call = call_of(create_, work);
    call.timeout = timeout_;
    call.on_line = [&](std::string_view line) {
      const bool is_cause = line.starts_with('{') && reader.read(line) && reader.find(0) &&
                            reader.find(1) && reader.find(0)->is_text() &&
                            reader.find(1)->is_text();
      if (!is_cause) return work.progress(line);
      causes.push_back(fmt::format("{}: {}", reader.find(0)->text(), reader.find(1)->text()));
      work.note(causes.back());
    };
    PADDLE_TRY(const ProgramEnd end, run_program(call));
    if (end.ok() && causes.empty()) return {};
    Error error = failure("create", create_, end);
    if (!causes.empty()) error.message = fmt::format("{}", fmt::join(causes, "\n"));
    return error;
  }

  Result<std::vector<ProvidedNode>> list() const override {
    ProgramCall call = call_of(list_, {});
    call.timeout = kListTimeout;
    PADDLE_TRY(const ProgramEnd end, run_program(call));
    if (!end.ok()) return failure("list", list_, end);
    if (end.output.size() > kListBytesMax)
      return Error{Errc::kData, "the output of [provider] list is too long", ""};
    std::vector<ProvidedNode> nodes;
    JsonReader reader({"name"});
    std::string_view rest = end.output;
    for (std::size_t number = 1; !rest.empty(); ++number) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      if (nodes.size() == kProvidedNodesMax) return bad_line(number, line, "too many nodes");
      PADDLE_TRY(ProvidedNode node, read_node_line(reader, line, number));
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

  Status destroy(const ProviderWork& work) const override {
    ProgramCall call = call_of(destroy_, work);
    call.timeout = timeout_;
    call.on_line = work.progress;
    PADDLE_TRY(const ProgramEnd end, run_program(call));
    if (end.ok()) return {};
    return failure("destroy", destroy_, end);
  }

 private:
  // A program with a '/' is relative to the cluster file's folder, in which it also runs.
  static std::vector<std::string> read_program(config::TomlTable& table, std::string_view key) {
    std::vector<std::string> words = table.strings(key, kProgramWordsMax);
    if (words.empty() || words.front().empty()) {
      table.fail(key, fmt::format("[provider] names no program to {} nodes", key),
                 fmt::format("write {0} = [\"providers/aws-ec2\", \"{0}\"]", key));
    }
    return words;
  }

  ProgramCall call_of(const std::vector<std::string>& program, const ProviderWork& work) const {
    return {.arguments = program,
            .folder = folder_,
            .environment = environment_,
            .interrupted = work.interrupted};
  }

  static Error failure(std::string_view what, const std::vector<std::string>& program,
                       const ProgramEnd& end) {
    return {Errc::kFailed, fmt::format("[provider] {}: {}", what, end.cause(program.front())),
            fmt::format("to see all of its messages, run it by hand: {}", fmt::join(program, " "))};
  }

  std::string folder_;
  std::vector<std::string> create_, list_, destroy_;
  std::uint32_t nodes_;
  Duration timeout_;
  std::map<std::string, std::string> environment_;
};

}  // namespace

std::shared_ptr<const Provider> read_command_provider(config::TomlTable& table,
                                                      const ProvidedCluster& cluster) {
  return std::make_shared<CommandProvider>(table, cluster);
}

}  // namespace paddle::cli
