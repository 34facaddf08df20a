#include "cli/cluster/provider.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/cluster/context.h"
#include "cli/console/time_text.h"

namespace paddle::cli {

namespace {

constexpr std::size_t kVariablesMax = 4096;

struct ProviderKind {
  std::string_view name;
  std::shared_ptr<const Provider> (*read)(config::TomlTable& table, const ProvidedCluster& cluster);
};

constexpr std::array<ProviderKind, 3> kKinds{ProviderKind{"command", read_command_provider},
                                             ProviderKind{"kubernetes", read_kubernetes_provider},
                                             ProviderKind{"slurm", read_slurm_provider}};

}  // namespace

std::shared_ptr<const Provider> read_provider(config::TomlTable& table,
                                              const ProvidedCluster& cluster) {
  std::vector<std::string_view> names;
  for (const ProviderKind& kind : kKinds) names.push_back(kind.name);
  if (!table.has("kind")) {
    table.fail("kind", "missing `kind`", fmt::format("write one of {}", fmt::join(names, ", ")));
    // Keys of any kind are then known: the mistake is not in them.
    for (const ProviderKind& kind : kKinds) (void)kind.read(table, cluster);
    return nullptr;
  }
  const std::string asked = table.choice("kind", names.front(), names);
  table.decides("kind");
  const auto* const kind = std::ranges::find(kKinds, asked, &ProviderKind::name);
  return kind->read(table, cluster);
}

void read_variables(config::TomlTable& table, std::string_view key, std::string_view reserved,
                    std::string_view example, std::map<std::string, std::string>& variables) {
  for (const std::string& item : table.strings(key, kVariablesMax)) {
    const std::size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    if (equals == std::string::npos || !is_variable_name(name) || item.find('\0') < item.size()) {
      table.fail(key, fmt::format("'{}' is not a variable", item),
                 fmt::format("write {} = [\"{}\"]", key, example));
    } else if (name.starts_with(reserved)) {
      table.fail(key, fmt::format("'{}' is reserved for paddlectl", name), "remove it");
    } else {
      variables[name] = item.substr(equals + 1);
    }
  }
}

std::uint32_t read_nodes_wanted(config::TomlTable& table) {
  if (!table.has("nodes"))
    table.fail("nodes", "missing `nodes`", "write how many nodes to make: nodes = 4");
  return static_cast<std::uint32_t>(table.integer("nodes", 1, 1, kProvidedNodesMax));
}

Duration read_create_timeout(config::TomlTable& table, std::chrono::seconds otherwise) {
  return std::chrono::seconds(table.integer("timeout", otherwise.count(), 1, kProviderTimeoutMaxS));
}

std::string time_limit_text(std::int64_t left_ms, std::optional<std::int64_t> job_needs_ms) {
  std::string text = "the nodes are taken back in " + span_text(left_ms);
  if (!job_needs_ms || *job_needs_ms <= left_ms) return text;
  return fmt::format(
      "warning: {}, and the job needs about {}: it is saved before, and goes on in new ones with "
      "paddlectl up and train --resume",
      text, span_text(*job_needs_ms));
}

std::string toml_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (code < 0x20 || code == 0x7f) {
      quoted += fmt::format("\\u{:04X}", code);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string toml_list(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(toml_text(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

Context with_console(const Context& context, Console& console) {
  return {.console = console,
          .clock = context.clock,
          .connect = context.connect,
          .pause = context.pause,
          .interrupted = context.interrupted,
          .unix_seconds = context.unix_seconds,
          .engine = context.engine,
          .directory = context.directory,
          .hash_cache = context.hash_cache,
          .ask = context.ask,
          .host_key = context.host_key,
          .take_interrupt = context.take_interrupt,
          .note_interrupts = context.note_interrupts,
          .answers = context.answers,
          .share = context.share,
          .unix_ms = context.unix_ms,
          .limits = context.limits,
          .arguments = context.arguments,
          .command_at = context.command_at,
          .ssh_library = context.ssh_library,
          .who = context.who,
          .folders_beside = context.folders_beside,
          .machine_of = context.machine_of,
          .why_lost = context.why_lost,
          .why_ended = context.why_ended,
          .nodes_end = context.nodes_end,
          .help = context.help};
}

ProviderWork work_of(Context& context) {
  return {.progress =
              [&context](std::string_view line) {
                context.console.progress(context.clock.now(), line);
              },
          .note = [&context](std::string_view line) { context.console.note(line); },
          .interrupted = context.interrupted,
          .pause = context.pause};
}

}  // namespace paddle::cli
