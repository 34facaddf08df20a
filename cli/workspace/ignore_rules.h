// The rules of .paddleignore files, which are those of gitignore(5).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paddle::cli {

class IgnoreRules {
 public:
  // Adds the rules of one file, for its `folder` (relative to the top, with a slash at its end, or
  // empty) and those below. Later rules win, so add a folder's before those below it.
  void add(std::string_view folder, std::string_view text);

  // Not to be asked about paths below an ignored folder: no rule includes them again.
  bool ignores(std::string_view path, bool is_folder) const;
  // Whether a rule that begins with '!' includes it.
  bool keeps(std::string_view path, bool is_folder) const;

 private:
  struct Rule {
    std::string folder;
    std::string pattern;
    bool keeps = false;  // "!pattern"
    bool folders_only = false;
    bool whole_path = false;  // a slash within: against the path, not the last name
  };
  const Rule* last_match(std::string_view path, bool is_folder) const;

  std::vector<Rule> rules_;
};

// '*', '?' and '[...]' match within a name; '**' as a whole name matches any number of names.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace paddle::cli
