#include "cli/job/run_record.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/cluster/program.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTagMarks = "._-:/=+@";
constexpr std::size_t kCommitBytesMin = 40, kCommitBytesMax = 64;  // SHA-1 and SHA-256
constexpr std::size_t kCommitShown = 12;
constexpr std::size_t kBranchBytesMax = 255;
constexpr Duration kGitPatience = std::chrono::seconds(5);  // for each call

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_tag(std::string_view tag) {
  return !tag.empty() && tag.size() <= kTagBytesMax && std::ranges::all_of(tag, [](char c) {
    return is_letter_or_digit(c) || kTagMarks.find(c) != std::string_view::npos;
  });
}

bool is_commit(std::string_view text) {
  return text.size() >= kCommitBytesMin && text.size() <= kCommitBytesMax &&
         std::ranges::all_of(
             text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_in_repository(const std::string& folder) {
  std::error_code ignored;
  const fs::path start = fs::weakly_canonical(folder, ignored);
  for (fs::path at = start; !at.empty(); at = at.parent_path()) {
    if (fs::exists(at / ".git", ignored)) return true;
    if (at == at.parent_path()) break;
  }
  return false;
}

// Runs git in the folder. Variables that name another repository, as git sets them for its hooks,
// are left out by env.
std::optional<ProgramEnd> run_git(const std::string& folder,
                                  const std::function<bool()>& interrupted,
                                  const std::vector<std::string>& words) {
  ProgramCall call;
  call.arguments = {"env",
                    "-u",
                    "GIT_DIR",
                    "-u",
                    "GIT_WORK_TREE",
                    "-u",
                    "GIT_INDEX_FILE",
                    "-u",
                    "GIT_COMMON_DIR",
                    "git",
                    "-c",
                    "core.fsmonitor=",
                    "-c",
                    "core.hooksPath=/dev/null"};
  call.arguments.insert(call.arguments.end(), words.begin(), words.end());
  call.folder = folder;
  call.environment = {{"GIT_CONFIG_NOSYSTEM", "1"}, {"GIT_OPTIONAL_LOCKS", "0"},
                      {"GIT_NO_LAZY_FETCH", "1"},   {"GIT_ALLOW_PROTOCOL", "none"},
                      {"GIT_TERMINAL_PROMPT", "0"}, {"LC_ALL", "C"}};
  call.timeout = kGitPatience;
  call.interrupted = interrupted;
  auto end = run_program(call);
  if (!end) return std::nullopt;
  return *std::move(end);
}

// Whether the repository itself names programs that git would run to compare files.
bool has_own_filters(const ProgramEnd& listed) {
  if (listed.status == 1) return false;  // no filter at all
  if (!listed.ok()) return true;         // not known
  std::istringstream lines(listed.output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("system\t") && !line.starts_with("global\t")) return true;
  }
  return false;
}

}  // namespace

std::string GitState::text() const {
  if (commit.empty()) return "";
  std::vector<std::string> more;
  if (!branch.empty()) more.push_back(branch);
  if (is_changed == true) more.emplace_back("with changes");
  return commit.substr(0, kCommitShown) +
         (more.empty() ? "" : fmt::format(" ({})", fmt::join(more, ", ")));
}

bool RunRecord::has_tag(std::string_view tag) const {
  return std::ranges::find(tags, tag) != tags.end();
}

Result<std::vector<std::string>> checked_tags(const std::vector<std::string>& typed) {
  std::vector<std::string> tags;
  for (const std::string& tag : typed) {
    if (!is_tag(tag)) {
      return Error{Errc::kUsage, fmt::format("--tag '{}' is no tag", escape_control(tag)),
                   fmt::format("use up to {} letters, digits and {}; --note takes any text",
                               kTagBytesMax, kTagMarks)};
    }
    if (std::ranges::find(tags, tag) == tags.end()) tags.push_back(tag);
  }
  if (tags.size() > kTagsMax) {
    return Error{Errc::kUsage, fmt::format("{} tags are too many", tags.size()),
                 fmt::format("a job has {} at most", kTagsMax)};
  }
  return tags;
}

Status check_note(std::string_view note) {
  if (note.size() > kNoteBytesMax) {
    return Error{Errc::kUsage, fmt::format("--note has {} bytes", note.size()),
                 fmt::format("shorten it to {}", kNoteBytesMax)};
  }
  if (escape_control(note) == note) return {};
  return Error{Errc::kUsage, fmt::format("--note '{}' is no plain text", escape_control(note)),
               "write it on one line in UTF-8, without control characters"};
}

GitState git_state(const std::string& folder, const std::function<bool()>& interrupted) {
  GitState state;
  if (!is_in_repository(folder)) return state;
  const auto head = run_git(folder, interrupted, {"rev-parse", "HEAD", "--abbrev-ref", "HEAD"});
  if (!head || !head->ok()) return state;
  std::istringstream lines(head->output);
  std::string commit, branch;
  std::getline(lines, commit);
  std::getline(lines, branch);
  if (!is_commit(commit)) return state;
  state.commit = std::move(commit);
  if (branch != "HEAD" && branch.size() <= kBranchBytesMax) state.branch = std::move(branch);
  const auto filters = run_git(
      folder, interrupted,
      {"config", "--show-scope", "--name-only", "--get-regexp", "^filter\\..*\\.(clean|process)$"});
  if (!filters || has_own_filters(*filters)) return state;
  const auto changes =
      run_git(folder, interrupted,
              {"status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all", "."});
  if (changes && changes->ok()) state.is_changed = !changes->output.empty();
  return state;
}

Json::Fields fields_of(const RunRecord& record) {
  const auto& is_changed = record.git.is_changed;
  return {{"tags", fmt::format("{}", fmt::join(record.tags, " "))},
          {"note", record.note},
          {"commit", record.git.commit},
          {"branch", record.git.branch},
          {"changed", !is_changed   ? ""
                      : *is_changed ? "yes"
                                    : "no"}};
}

RunRecord run_record_of(const std::function<std::string(std::string_view)>& text) {
  RunRecord record;
  std::istringstream tags(text("tags"));
  for (std::string tag; tags >> tag && record.tags.size() < kTagsMax;) {
    if (is_tag(tag) && !record.has_tag(tag)) record.tags.push_back(tag);
  }
  std::string note = text("note");
  if (check_note(note)) record.note = std::move(note);
  std::string commit = text("commit");
  if (!is_commit(commit)) return record;
  record.git.commit = std::move(commit);
  std::string branch = text("branch");
  if (branch.size() <= kBranchBytesMax) record.git.branch = std::move(branch);
  const std::string changed = text("changed");
  if (!changed.empty()) record.git.is_changed = changed == "yes";
  return record;
}

void add_json(const RunRecord& record, Json::Fields& fields) {
  const GitState& git = record.git;
  fields.emplace_back("tags", Json::list({record.tags.begin(), record.tags.end()}));
  fields.emplace_back("note", record.note);
  fields.emplace_back("git", git.commit.empty() ? Json()
                                                : Json::object({{"commit", git.commit},
                                                                {"branch", git.branch},
                                                                {"changed", git.is_changed}}));
}

}  // namespace paddle::cli
