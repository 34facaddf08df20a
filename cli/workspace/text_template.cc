#include "cli/workspace/text_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/console/json.h"

namespace paddle::cli {
namespace {

using NameAndFile = std::pair<std::string_view, std::string_view>;
constexpr std::array<NameAndFile, 3> kPlatforms = {{
    {"kubernetes", "kubernetes.yaml"},
    {"slurm", "slurm.sh"},
    {"openmpi", "openmpi.sh"},
}};
// A pod's host name, <job>-<index>, is a DNS label of at most 63 characters.
constexpr std::size_t kNameCharactersMax = 52;

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

std::string quoted_for_shell(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Lower case letters and digits, with '-' between them: valid on all three platforms.
std::string plain_name(const std::string& name) {
  std::string out;
  for (const char c : name.substr(0, kNameCharactersMax)) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool plain = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    if (plain || !out.empty()) out += plain ? lower : '-';
  }
  while (out.ends_with('-')) out.pop_back();
  return out;
}

// A Service's name must begin with a letter.
std::string name_for(const std::string& name) {
  const std::string plain = plain_name(name);
  return !plain.empty() && plain[0] >= '0' && plain[0] <= '9' ? plain_name("job-" + plain) : plain;
}

TemplateValues values_of(const PlatformJob& job) {
  std::string set_flags;
  for (const std::string& override : job.overrides)
    set_flags += " " + quoted_for_shell("--set=" + override);
  const auto number = [](std::uint32_t value) { return fmt::format("{}", value); };
  return {{"name", name_for(job.name)},
          {"workspace", quoted_for_shell(job.workspace)},
          {"engine", quoted_for_shell(job.engine)},
          {"trainers", number(job.trainers)},
          {"pservers", number(job.pservers)},
          {"last_pserver", number(job.pservers - 1)},
          {"processes", number(job.trainers + job.pservers)},
          {"set_flags", set_flags},
          {"image", Json(job.image).text()}};
}

}  // namespace

Result<std::string> fill_words(std::string_view file, std::string_view text,
                               const TemplateValues& values) {
  std::string out;
  for (std::ptrdiff_t line = 1;;) {
    const std::size_t begin = text.find("{{");
    out += text.substr(0, begin);
    if (begin == text.npos) return out;
    line += std::ranges::count(text.substr(0, begin), '\n');
    const std::size_t end = text.find("}}", begin);
    const std::string_view word = end == text.npos ? "" : text.substr(begin + 2, end - begin - 2);
    const auto found = std::ranges::find(values, word, &TemplateValues::value_type::first);
    if (found == values.end()) {
      return Error{Errc::kUsage,
                   fmt::format("{}:{}: {{{{{}}}}} means nothing", file, line, escape_control(word)),
                   "the words are those of the template that came with paddlectl"};
    }
    out += found->second;
    text.remove_prefix(end + 2);
  }
}

Result<std::string_view> platform_file(std::string_view name) {
  const auto found = std::ranges::find(kPlatforms, name, &NameAndFile::first);
  if (found != kPlatforms.end()) return found->second;
  return Error{Errc::kUsage,
               name.empty() ? std::string("render needs the name of a platform")
                            : fmt::format("unknown platform '{}'", escape_control(name)),
               "paddlectl render kubernetes, slurm or openmpi"};
}

Result<std::string> fill_template(std::string_view file, std::string_view text,
                                  const PlatformJob& job) {
  const TemplateValues values = values_of(job);
  if (values.front().second.empty()) {
    return Error{Errc::kUsage, fmt::format("'{}' names no job", escape_control(job.name)),
                 "give it letters or digits: --name word2vec"};
  }
  for (const auto& [name, value] : values) {
    if (std::ranges::any_of(value, is_control)) {
      return Error{Errc::kUsage,
                   fmt::format("a control character in {}: {}", name, escape_control(value)),
                   "use a path, name or value without one"};
    }
  }
  return fill_words(file, text, values);
}

}  // namespace paddle::cli
