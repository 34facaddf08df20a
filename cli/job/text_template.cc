#include "cli/job/text_template.h"

#include <algorithm>
#include <array>
#include <iterator>
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
constexpr std::uint32_t kStopsMax = 10;  // of a Job in Kubernetes; each ends all pods
constexpr const char* kPodFile = "kubernetes_pod.sh";
constexpr const char* kOwnFile = "own_program.sh";

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

// A pod's ports, as items of a YAML list: those of a pserver, then those of a trainer that listens.
std::string port_list(const PlatformJob& job, std::string_view key) {
  std::vector<std::string> names;
  for (int i = 0; i < job.ports_num && job.pservers > 0; ++i)
    names.push_back(fmt::format("dense-{}", i));
  for (int i = 0; i < job.ports_num_for_sparse && job.pservers > 0; ++i)
    names.push_back(fmt::format("sparse-{}", i));
  if (trainers_listen(job)) names.emplace_back("trainer");
  if (!job.command.empty()) names.emplace_back("master");
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += fmt::format("{}{{name: {}, {}: {}}}", i == 0 ? "" : ", ", names[i], key,
                        job.first_port + i);
  }
  return text;
}

// A pod runs a pserver, a trainer, or both.
std::uint32_t pods_of(const PlatformJob& job) {
  return std::max(job.trainers, job.pservers);
}

bool has_secret(const PlatformJob& job) {
  return job.pservers > 0 || job.has_group;
}

bool prints_key(const PlatformJob& job) {
  return has_secret(job) && !job.kubernetes.new_key.empty();
}

// Text as a double-quoted YAML scalar.
std::string quoted_for_yaml(const std::string& text) {
  return Json(text).text();
}

// The values that only Kubernetes' manifest has.
TemplateValues kubernetes_values(const PlatformJob& job) {
  const KubernetesJob& kubernetes = job.kubernetes;
  const std::string name = name_for(job.name);
  const std::uint32_t pods = pods_of(job);
  const std::size_t colon = kubernetes.nfs.find(":/");
  const bool has_nfs = !kubernetes.nfs.empty();
  const auto or_name = [&](const std::string& text, const char* end) {
    return quoted_for_yaml(text.empty() ? name + end : text);
  };
  return {{"pods", fmt::format("{}", pods)},
          {"last_pod", fmt::format("{}", std::int64_t{pods} - 1)},
          {"backoff_limit", fmt::format("{}", pods * kStopsMax)},
          {"service_ports", port_list(job, "port")},
          {"container_ports", port_list(job, "containerPort")},
          {"image", quoted_for_yaml(kubernetes.image)},
          {"cpu", quoted_for_yaml(kubernetes.cpu)},
          {"memory", quoted_for_yaml(kubernetes.memory)},
          {"nfs_server", has_nfs ? quoted_for_yaml(kubernetes.nfs.substr(0, colon)) : ""},
          {"nfs_path", has_nfs ? quoted_for_yaml(kubernetes.nfs.substr(colon + 1)) : ""},
          {"claim", or_name(kubernetes.claim, "")},
          {"secret", or_name(kubernetes.secret, "-key")},
          {"key", kubernetes.new_key}};
}

TemplateValues values_of(const PlatformJob& job) {
  std::string set_flags;
  for (const std::string& override : job.overrides)
    set_flags += " " + quoted_for_shell("--set=" + override);
  std::string set_items;
  for (const std::string& override : job.overrides) set_items += " " + quoted_for_shell(override);
  std::string command;
  for (const std::string& word : job.command)
    command += (command.empty() ? "" : " ") + quoted_for_shell(word);
  const auto number = [](std::uint32_t value) { return fmt::format("{}", value); };
  return {{"name", name_for(job.name)},
          {"workspace", quoted_for_shell(job.workspace)},
          {"engine", quoted_for_shell(job.engine)},
          {"trainers", number(job.trainers)},
          {"pservers", number(job.pservers)},
          {"processes", number(job.trainers + job.pservers)},
          {"set_flags", set_flags},
          {"set_items", set_items},
          {"group_flag", group_flag(job)},
          {"command", command},
          {"first_port", number(job.first_port)},
          {"master_port", number(job.first_port + 1U)},
          {"ports_num", number(job.ports_num)},
          {"ports_num_for_sparse", number(job.ports_num_for_sparse)},
          {"transport", job.transport}};
}

struct Condition {
  std::string_view name;
  bool (*holds)(const PlatformJob& job);
};

constexpr std::array<Condition, 8> kConditions = {{
    {"pservers", [](const PlatformJob& job) { return job.pservers > 0; }},
    {"secret", has_secret},
    {"printed_key", prints_key},
    {"own_program", [](const PlatformJob& job) { return !job.command.empty(); }},
    {"cluster", [](const PlatformJob& job) { return job.has_cluster; }},
    {"statistics", [](const PlatformJob& job) { return job.lacks_statistics; }},
    {"nfs", [](const PlatformJob& job) { return !job.kubernetes.nfs.empty(); }},
    {"prepare", [](const PlatformJob& job) { return job.kubernetes.has_data_job; }},
}};

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
      const auto* const found = std::ranges::find(kConditions, word, &Condition::name);
      is_good = !is_open && found != kConditions.end();
      is_open = true;
      is_kept = is_good && found->holds(job);
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
    return Error{
        Errc::kUsage, fmt::format("{}:{}: '{}' is out of place", file, line, escape_control(word)),
        "use {{if pservers}}, secret, printed_key, own_program, cluster, statistics, nfs or "
        "prepare, with {{else}} and {{end}}, and do not nest them"};
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
  const std::string& nfs = job.kubernetes.nfs;
  if (const std::size_t colon = nfs.find(":/"); !nfs.empty() && (colon == 0 || colon == nfs.npos)) {
    return Error{Errc::kUsage, fmt::format("--nfs {} is not SERVER:/PATH", escape_control(nfs)),
                 "for EFS: --nfs fs-0123.efs.eu-west-1.amazonaws.com:/"};
  }
  std::ranges::move(kubernetes_values(job), std::back_inserter(values));
  for (const auto& [name, value] : values) {
    if (std::ranges::any_of(value, is_control)) {
      return Error{Errc::kUsage,
                   fmt::format("{} has a control character: {}", name, escape_control(value)),
                   "use a path, name or value without one"};
    }
  }
  PADDLE_TRY(const std::string chosen, choose_lines(file, text, job));
  PADDLE_TRY(const std::string pod, choose_lines(kPodFile, job.kubernetes.pod, job));
  PADDLE_TRY(const std::string own, choose_lines(kOwnFile, job.own_program, job));
  // The text of a part becomes the value of its word in `whole`.
  const auto add_part = [&](std::string_view part, std::string_view word,
                            const std::string& of_part, const std::string& whole) -> Status {
    PADDLE_TRY(const std::string filled, fill_words(part, of_part, values));
    values.emplace_back(word.substr(2, word.size() - 4),
                        indented(filled, indentation_of(whole, word)));
    return {};
  };
  PADDLE_TRY_STATUS(add_part(kOwnFile, "{{own_program}}", own, pod.empty() ? chosen : pod));
  PADDLE_TRY_STATUS(add_part("endpoints.sh", "{{endpoints}}", job.endpoints, chosen));
  PADDLE_TRY_STATUS(add_part(kPodFile, "{{pod}}", pod, chosen));
  return fill_words(file, chosen, values);
}

}  // namespace paddle::cli
