// The record of a run: the tags and the note that its user gave it, and the state of the
// workspace's git repository. They describe a job for people, and no program acts on them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/console/json.h"

namespace paddle::cli {

constexpr std::size_t kTagsMax = 16;
constexpr std::size_t kTagBytesMax = 64;
constexpr std::size_t kNoteBytesMax = 1000;

struct GitState {
  std::string commit;  // hexadecimal; "": not known, and then nothing else is
  std::string branch;  // "": none, or not known
  // Whether files of the workspace that git tracks differ from the commit; nothing: not known.
  std::optional<bool> is_changed;

  bool operator==(const GitState&) const = default;
  // "1a2b3c4d5e6f (main, with changes)"; "" if the commit is not known.
  std::string text() const;
};

struct RunRecord {
  std::vector<std::string> tags;
  std::string note;
  GitState git;

  bool operator==(const RunRecord&) const = default;
  bool has_tag(std::string_view tag) const;
};

// Each tag once, in the order typed. kUsage: a tag has another character than letters, digits and
// ._-:/=+@, is too long, or there are too many.
Result<std::vector<std::string>> checked_tags(const std::vector<std::string>& typed);
// kUsage: the note is too long, is not UTF-8, or has control characters, such as a line break.
Status check_note(std::string_view note);

// The state of the repository that the folder lies in. Runs git, without a shell and for a few
// seconds at most. Nothing is known without git, without a repository, and of a repository that
// belongs to another user and is no safe.directory. A repository may be hostile: none of its hooks,
// filters and monitors runs, and nothing is fetched for it.
GitState git_state(const std::string& folder, const std::function<bool()>& interrupted = {});

// The fields of a line that keeps the record in a file.
Json::Fields fields_of(const RunRecord& record);
// Reads them; `text` returns the text of a key, "" if the line has none. A node may have written
// the line, so fields that break the rules above are left out.
RunRecord run_record_of(const std::function<std::string(std::string_view)>& text);

// {"tags", "note", "git": {"commit", "branch", "changed"}} for --json; git is null if not known.
void add_json(const RunRecord& record, Json::Fields& fields);

}  // namespace paddle::cli
