#include "cli/job/text_template.h"

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

// Lower case letters and digits, with '-' between them, which all three platforms accept.
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

// The name of a Service, which must begin with a letter.
std::string name_for(const std::string& name) {
  const std::string plain = plain_name(name);
  return !plain.empty() && plain[0] >= '0' && plain[0] <= '9' ? plain_name("job-" + plain) : plain;
}

bool trainers_listen(const PlatformJob& job) {
  return !job.command.empty() || job.has_group || job.has_node_groups;
}

// Arguments of a trainer in a group: the endpoints of the trainers, and an empty --pservers if
// there are no pservers.
std::string group_flag(const PlatformJob& job) {
  if (!job.has_group && !job.has_node_groups) return "";
  return std::string(" --trainers=\"$trainers\"") + (job.pservers == 0 ? " --pservers=" : "");
}

// A pod's ports, as items of a YAML list: those of a pserver (a trainer also uses the first one),
// or those of a trainer that listens.
std::string port_list(const PlatformJob& job, std::string_view key) {
  std::vector<std::string> names;
  for (int i = 0; i < job.ports_num && job.pservers > 0; ++i)
    names.push_back(fmt::format("dense-{}", i));
  for (int i = 0; i < job.ports_num_for_sparse && job.pservers > 0; ++i)
    names.push_back(fmt::format("sparse-{}", i));
  if (trainers_listen(job) && job.pservers == 0) names = {"trainer"};
  if (!job.command.empty() && job.pservers == 0) names.emplace_back("master");
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += fmt::format("{}{{name: {}, {}: {}}}", i == 0 ? "" : ", ", names[i], key,
                        job.first_port + i);
  }
  return text;
}

// The number of the last process whose address the others need; -1: they need none.
std::string last_address(const PlatformJob& job) {
  const std::uint32_t listeners = trainers_listen(job) ? job.trainers : 0;
  return fmt::format("{}", std::int64_t{job.pservers} + listeners - 1);
}

TemplateValues values_of(const PlatformJob& job) {
  std::string set_flags;
  for (const std::string& override : job.overrides)
    set_flags += " " + quoted_for_shell("--set=" + override);
  std::string command;
  for (const std::string& word : job.command)
    command += (command.empty() ? "" : " ") + quoted_for_shell(word);
  const auto number = [](std::uint32_t value) { return fmt::format("{}", value); };
  return {{"name", name_for(job.name)},
          {"workspace", quoted_for_shell(job.workspace)},
          {"engine", quoted_for_shell(job.engine)},
          {"trainers", number(job.trainers)},
          {"pservers", number(job.pservers)},
          {"last_address", last_address(job)},
          {"processes", number(job.trainers + job.pservers)},
          {"set_flags", set_flags},
          {"group_flag", group_flag(job)},
          {"command", command},
          {"first_port", number(job.first_port)},
          {"master_port", number(job.first_port + 1U)},
          {"ports_num", number(job.ports_num)},
          {"ports_num_for_sparse", number(job.ports_num_for_sparse)},
          {"transport", job.transport},
          {"service_ports", port_list(job, "port")},
          {"container_ports", port_list(job, "containerPort")},
          {"image", Json(job.image).text()}};
}

constexpr std::array<std::string_view, 4> kConditions = {"pservers", "secret", "own_program",
                                                         "cluster"};

bool holds(const PlatformJob& job, std::string_view condition) {
  if (condition == "pservers") return job.pservers > 0;
  if (condition == "secret") return job.pservers > 0 || job.has_group;
  return condition == "own_program" ? !job.command.empty() : job.has_cluster;
}

// Drops the lines whose condition is false for the job, and the lines with the conditions.
Result<std::string> choose_lines(std::string_view file, std::string_view text,
                                 const PlatformJob& job) {
  std::string out;
  bool is_open = false, is_kept = true;
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view whole = text.substr(0, end);
    std::string_view word = whole.substr(0, whole.find('\n'));
    text.remove_prefix(end);
    bool is_good = true;
    if (word.starts_with("{{if ") && word.ends_with("}}")) {
      word = word.substr(5, word.size() - 7);
      is_good = !is_open && std::ranges::find(kConditions, word) != kConditions.end();
      is_open = true;
      is_kept = holds(job, word);
    } else if (word == "{{else}}") {
      is_good = is_open;
      is_kept = !is_kept;
    } else if (word == "{{end}}") {
      is_good = is_open;
      is_open = false;
      is_kept = true;
    } else if (is_kept) {
      out += whole;
    }
    if (is_good) continue;
    return Error{Errc::kUsage,
                 fmt::format("{}:{}: '{}' is out of place", file, line, escape_control(word)),
                 "use {{if pservers}}, secret, own_program or cluster, with {{else}} and {{end}}, "
                 "and do not nest them"};
  }
  return out;
}

// The blanks before a word, at the start of its line.
std::string indentation_of(std::string_view text, std::string_view word) {
  const std::size_t at = text.find(word);
  if (at == text.npos) return "";
  const std::size_t begin = text.rfind('\n', at) + 1;  // npos + 1 is 0
  const std::string_view before = text.substr(begin, at - begin);
  return std::string(before.substr(0, before.find_first_not_of(' ')));
}

// Indents all lines but the first, and drops the last line break.
std::string indented(std::string_view text, const std::string& indentation) {
  std::string out;
  if (text.ends_with('\n')) text.remove_suffix(1);
  for (const char c : text) out += c == '\n' ? "\n" + indentation : std::string(1, c);
  return out;
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
                   fmt::format("{}:{}: {{{{{}}}}} is unknown", file, line, escape_control(word)),
                   "use the words of the template that came with paddlectl"};
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
               "use kubernetes, slurm or openmpi"};
}

Result<std::string> fill_template(std::string_view file, std::string_view text,
                                  const PlatformJob& job) {
  TemplateValues values = values_of(job);
  if (values.front().second.empty()) {
    return Error{Errc::kUsage,
                 fmt::format("'{}' is not a valid job name", escape_control(job.name)),
                 "give it letters or digits: --name word2vec"};
  }
  for (const auto& [name, value] : values) {
    if (std::ranges::any_of(value, is_control)) {
      return Error{Errc::kUsage,
                   fmt::format("{} has a control character: {}", name, escape_control(value)),
                   "use a path, name or value without one"};
    }
  }
  PADDLE_TRY(const std::string chosen, choose_lines(file, text, job));
  const auto add_part = [&](std::string_view part, std::string_view word,
                            const std::string& of_part) -> Status {
    PADDLE_TRY(const std::string filled, fill_words(part, of_part, values));
    values.emplace_back(word.substr(2, word.size() - 4),
                        indented(filled, indentation_of(chosen, word)));
    return {};
  };
  PADDLE_TRY_STATUS(add_part("own_program.sh", "{{own_program}}", job.own_program));
  PADDLE_TRY_STATUS(add_part("endpoints.sh", "{{endpoints}}", job.endpoints));
  return fill_words(file, chosen, values);
}

}  // namespace paddle::cli
