#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "engine/config/sections.h"

namespace paddle::config {
namespace {

constexpr const char* kPage = "docs/notify.md";
constexpr std::size_t kArgumentsMax = 64;
constexpr std::chrono::seconds kTimeoutMax = std::chrono::minutes(5);
constexpr std::chrono::seconds kStalledMin = std::chrono::seconds(10);
constexpr std::chrono::seconds kStalledMax = std::chrono::hours(24);

// The duration at the key, or `fallback`.
std::chrono::seconds read_seconds(TomlTable& table, const char* key, std::chrono::seconds fallback,
                                  std::chrono::seconds min, std::chrono::seconds max) {
  constexpr std::string_view kDurations =
      "write whole numbers of h, m and s, the larger first: \"30s\", \"2m\"";
  if (table.has(key) && !table.is_string(key)) {
    table.fail(key, fmt::format("'{}' must be a string with a unit", key), kDurations);
    return fallback;
  }
  const std::string text = table.string(key);
  if (!table.is_string(key)) return fallback;
  const auto parsed = parse_duration(text);
  if (parsed && *parsed >= min && *parsed <= max) return *parsed;
  table.fail(key,
             fmt::format("'{}' is '{}', but must be from {} s to {} s", key, text, min.count(),
                         max.count()),
             kDurations);
  return fallback;
}

void read_events(TomlTable& table, NotifyConfig& notify) {
  const std::vector<std::string> events = table.strings("on", kNotifyEvents.size());
  if (!table.is_list("on")) return;
  notify.events = events;
  for (const std::string& event : events) {
    if (std::ranges::find(kNotifyEvents, event) != kNotifyEvents.end()) continue;
    const std::string near = nearest(event, kNotifyEvents);
    table.fail("on",
               near.empty() ? fmt::format("unknown event '{}'", event)
                            : fmt::format("unknown event '{}', did you mean '{}'?", event, near),
               fmt::format("events are {}", fmt::join(kNotifyEvents, ", ")));
    return;
  }
}

// Refuses commands that read_program() allows, but no node can run.
void check_command(TomlTable& table, const std::vector<std::string>& command) {
  for (const std::string& argument : command) {
    if (argument.find('\0') != argument.npos) table.fail("command", "an argument holds a NUL byte");
  }
  const std::string program = command.empty() ? "" : command.front();
  const bool is_blank = program.find_first_not_of(" \t\n") == program.npos;
  if (!program.empty() && (is_blank || program == "." || program == "..")) {
    table.fail("command", "'command' names no program",
               "it is a list: the program and its arguments");
  }
}

}  // namespace

bool NotifyConfig::has(std::string_view event) const {
  return std::ranges::find(events, event) != events.end();
}

NotifyConfig read_notify(TomlTable table) {
  NotifyConfig notify;
  notify.command = read_program(table, "command");
  check_command(table, notify.command);
  if (notify.command.size() > kArgumentsMax) {
    table.fail("command", fmt::format("'command' has over {} arguments", kArgumentsMax),
               "call a script that has them");
  }
  read_events(table, notify);
  notify.timeout =
      read_seconds(table, "timeout", notify.timeout, std::chrono::seconds(1), kTimeoutMax);
  notify.stalled_after =
      read_seconds(table, "stalled_after", notify.stalled_after, kStalledMin, kStalledMax);
  return notify;
}

Result<NotifyConfig> read_notify_file(const std::string& path) {
  PADDLE_TRY(TomlTable root, TomlTable::read(path, {}, kPage));
  NotifyConfig notify = read_notify(root);
  require(root, "command", "notify.toml");
  PADDLE_TRY_STATUS(root.finish());
  return notify;
}

Error notify_mistake(const std::string& path, const std::vector<std::string>& overrides,
                     bool is_section, std::string_view message, std::string_view hint) {
  auto root = TomlTable::read(path, overrides, kPage);
  if (!root) return std::move(root).error();
  TomlTable table = is_section ? root->table("notify") : *root;
  table.decides("command");
  table.fail("command", message, hint);
  return root->finish().error();
}

}  // namespace paddle::config
