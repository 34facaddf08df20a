#include "engine/data/objects.h"

#include <sys/eventfd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/text_file.h"
#include "engine/data/byte_source.h"
#include "engine/data/fields.h"

namespace paddle::data {
namespace {

constexpr std::size_t kListBytesMax = 64U << 20U;
constexpr std::size_t kObjectNameBytesMax = 1024;
constexpr std::size_t kReadBytes = 64U << 10U;

Error wrong_list(const std::string& pattern, Error error) {
  return std::move(error).with(
      fmt::format("the list of data.command for '{}'", escape_control(pattern)));
}

Result<std::string> read_list(const std::string& pattern, const SourceOptions& options) {
  PADDLE_TRY(const auto source, open_command("list", pattern, options));
  std::string text;
  for (;;) {
    const std::size_t held = text.size();
    if (held > kListBytesMax) {
      return wrong_list(pattern, {Errc::kData, fmt::format("it has over {} bytes", kListBytesMax),
                                  "list fewer and larger objects"});
    }
    text.resize(held + kReadBytes);
    PADDLE_TRY(const std::size_t count,
               source->read(std::as_writable_bytes(std::span(text).subspan(held))));
    text.resize(held + count);
    if (count == 0) return text;
  }
}

// Checks the name of an object, which becomes an argument of the command and part of messages.
Status check_name(std::string_view name) {
  if (name.size() > kObjectNameBytesMax)
    return Error{Errc::kData, fmt::format("a name has over {} bytes", kObjectNameBytesMax)};
  const std::string shown = escape_control(name);
  if (shown != name || name.find('\t') != std::string_view::npos)
    return Error{Errc::kData, fmt::format("'{}' is not printable UTF-8", shown)};
  if (name.front() == '-')
    return Error{Errc::kData, fmt::format("a name must not begin with '-': '{}'", name)};
  if (name == kStandardInput)
    return Error{Errc::kData, fmt::format("'{}' stands for the standard input", name)};
  return {};
}

Result<std::vector<std::string>> names_of(const std::string& text) {
  if (!text.empty() && text.back() != '\n')
    return Error{Errc::kData, "the last name has no line end, so it may be cut off"};
  std::vector<std::string> names;
  Lines lines(without_byte_order_mark(text));
  while (const auto line = lines.next()) {
    if (line->empty()) continue;
    if (Status good = check_name(*line); !good)
      return std::move(good).error().with(fmt::format("line {}", lines.number() + 1));
    names.emplace_back(*line);
  }
  if (names.empty())
    return Error{Errc::kData, "it is empty",
                 "called with `list` and the pattern as last arguments, the command must print one "
                 "name per line"};
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) return Error{Errc::kData, fmt::format("it has '{}' twice", *twice)};
  return names;
}

}  // namespace

Result<config::DataShare> find_share(const config::DataConfig& data, const std::string& folder,
                                     const std::string& pattern, std::uint32_t trainer_id,
                                     std::uint32_t num_trainers, bool global_shuffle) {
  if (data.command.empty())
    return config::data_share(folder, pattern, trainer_id, num_trainers, global_shuffle);
  const UniqueFd never(::eventfd(0, EFD_CLOEXEC));
  PADDLE_TRY(const std::string text, read_list(pattern, {.command = data.command,
                                                         .folder = folder,
                                                         .pipe_timeout = data.pipe_timeout,
                                                         .stop_fd = never.get()}));
  auto names = names_of(text);
  if (!names) return wrong_list(pattern, std::move(names).error());
  std::uint64_t hash = stable_hash("data.command");
  for (const std::string& name : *names) hash = hash_combine(hash, stable_hash(name));
  log_info("data.command lists {} objects for '{}'", names->size(), escape_control(pattern));
  PADDLE_TRY(auto share,
             config::deal_files(*std::move(names), trainer_id, num_trainers, global_shuffle));
  share.names_hash = std::max<std::uint64_t>(hash, 1);
  return share;
}

}  // namespace paddle::data
